"""A pydantic model arrives as it was given, or the enqueue is refused with the field and not its value."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections import deque
from enum import Enum
from typing import Any, Final
from uuid import uuid4

import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, SecretBytes, SecretStr

from penstock.contract.errors import PayloadRejected
from penstock.contract.payloads import encode

CANARY: Final = "my neighbour is too loud"


class K(Enum):
    A = "a"


class Aliased(BaseModel):
    recipient: str = Field("nobody@example.org", alias="to")


class ReadOtherwise(BaseModel):
    recipient: str = Field("nobody", validation_alias="to", serialization_alias="for")


class Chosen(BaseModel):
    recipient: str = Field("nobody", validation_alias=AliasChoices(AliasPath("all", 0), "to"))


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    recipient: str = Field("nobody", validation_alias=AliasPath("all", 0))


class Letter(BaseModel):
    model_config = ConfigDict(extra="allow")
    sealed: Aliased | None = None
    several: list[Aliased] = []
    named: dict[str, ReadOtherwise] = {}


class Letters(pydantic.RootModel[list[Aliased]]):
    pass


class Tags(BaseModel):
    tags: set[str]
    pairs: frozenset[tuple[int, str]] = frozenset()


class Shelf(BaseModel):
    model_config = ConfigDict(frozen=True)
    books: frozenset[frozenset[str]] = frozenset()


class Hidden(BaseModel):
    shown: int
    hidden: int = Field(7, exclude=True)
    later: list[int] = Field(default_factory=list, exclude=True)


class Revealed(BaseModel):
    password: SecretStr

    @pydantic.field_serializer("password")
    def _reveal(self, value: SecretStr) -> str:
        return value.get_secret_value()


class Whole(BaseModel):
    left: int
    right: int

    @pydantic.model_serializer
    def _as_text(self) -> dict[str, str]:
        return {"both": f"{self.left} {self.right}"}

    @pydantic.model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        if isinstance(given, dict) and "both" in given:
            left, right = given["both"].split()
            return {"left": left, "right": right}
        return given


@pydantic.dataclasses.dataclass
class Envelope:
    recipient: str = Field("nobody", alias="to")


class Sent(BaseModel):
    envelope: Envelope
    whole: Whole = Whole(left=1, right=2)


@pytest.mark.parametrize(
    "given",
    [
        Aliased(to="anna"),
        ReadOtherwise.model_validate({"to": "anna"}),
        Chosen.model_validate({"to": "anna"}),
        ByName(recipient="anna"),
        Letter(
            sealed=Aliased(to="anna"),
            several=[Aliased(to="berta")],
            named={"c": ReadOtherwise.model_validate({"to": "carla"})},
        ),
        Letter.model_validate({"sealed": None, "more": {"to": 1}}),
        Letters([Aliased(to="anna"), Aliased(to="berta")]),
        Tags(tags={"c", "a", "b"}, pairs=frozenset({(2, "x"), (1, "y")})),
        Hidden.model_validate({"shown": 1}),
        Revealed(password=SecretStr(CANARY)),
        Whole(left=3, right=4),
        Envelope(to="anna"),
        Sent(envelope=Envelope(to="anna"), whole=Whole(left=5, right=6)),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_model_is_read_back_as_it_was_given(given: Any) -> None:
    reader: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(type(given))

    assert reader.validate_json(encode(given)) == given
    assert reader.validate_python(json.loads(encode({"inside": [given]}))["inside"][0]) == given


class Locked(BaseModel):
    password: SecretStr | SecretBytes


class Vault(BaseModel):
    rows: list[dict[str, Locked]]


class Queue(BaseModel):
    waiting: deque[Any]


class Fresh(BaseModel):
    token: Any = Field(default_factory=uuid4, exclude=True)


class Required(BaseModel):
    must: str = Field(exclude=True)


class Based(BaseModel):
    base: Aliased


class Longer(Aliased):
    more: str = "short"


class Deep(BaseModel):
    recipient: str = Field("nobody", validation_alias=AliasPath("all", 0))


@pydantic.dataclasses.dataclass
class DeepDataclass:
    recipient: str = Field("nobody", validation_alias=AliasPath("all", 0))


class Clash(BaseModel):
    one: str = Field("x", validation_alias="two", serialization_alias="three")
    two: str = "y"


class Map(BaseModel):
    members: dict[Any, Any]


@pytest.mark.parametrize(
    ("given", "place", "says"),
    [
        (Locked(password=SecretStr(CANARY)), "$.password", "secret"),
        (Locked(password=SecretBytes(CANARY.encode())), "$.password", "secret"),
        (Vault(rows=[{}, {CANARY: Locked(password=SecretStr(CANARY))}]), "$.rows[1].#1.password", "secret"),
        (Queue(waiting=deque([SecretStr(CANARY)])), "$.waiting[0]", "secret"),
        (Hidden.model_validate({"shown": 1, "hidden": 2}), "$.hidden", "left out"),
        (Hidden.model_validate({"shown": 1, "later": [1]}), "$.later", "left out"),
        (Fresh(), "$.token", "left out"),
        (Required(must=CANARY), "$.must", "left out"),
        (Based(base=Longer(to="anna", more=CANARY)), "$.base.more", "left out"),
        (Deep.model_validate({"all": [CANARY]}), "$.recipient", "one plain alias"),
        (DeepDataclass(CANARY), "$.recipient", "one plain alias"),
        (Clash.model_validate({"two": CANARY}), "$.one", "one plain alias"),
        (Map(members={K.A: CANARY, "a": 2}), "$.members", "same text"),
        (Map(members={1: CANARY, "1": 2}), "$.members", "same text"),
        ({K.A: CANARY, "a": 2}, "$", "same text"),
        ({"a": 2, K.A: CANARY}, "$", "same text"),
    ],
)
def test_what_would_not_arrive_is_refused_with_its_place_and_without_its_content(
    given: object, place: str, says: str
) -> None:
    for payload, where in ((given, place), ([given], place.replace("$", "$[0]", 1))):
        with pytest.raises(PayloadRejected) as caught:
            encode(payload)
        assert f"payload at {where} " in str(caught.value)
        assert says in str(caught.value)
        assert CANARY not in str(caught.value)
        assert caught.value.__context__ is None


@dataclasses.dataclass
class Bag:
    things: Any


def test_a_set_is_taken_only_where_a_model_says_that_it_is_one() -> None:
    assert encode(Tags(tags={"b", "a"})) == '{"tags":["a","b"],"pairs":[]}'
    with pytest.raises(PayloadRejected, match="is a set"):
        encode(Bag({"b", "a"}))


@pytest.mark.contract("C-65")
def test_equal_sets_are_the_same_text_in_every_process() -> None:
    code = (
        "from tests.contract.test_models import Shelf, Tags; from penstock.contract.payloads import encode;"
        "print(encode([Tags(tags=set('abcdefgh'), pairs={(n, str(n)) for n in range(9)}),"
        " Shelf(books={frozenset('abc'), frozenset('def'), frozenset('ace')})]))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


def test_a_value_of_the_wrong_type_is_not_quoted_in_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    encode(Tags.model_construct(tags=CANARY))
    assert not recwarn.list
