"""Scripts that tell a language by themselves: Japanese, Chinese, Hindi and some more."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_KANA: Final = frozenset({"HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"})
_HAN: Final = "CJK"
_UNSPACED: Final = _KANA | {_HAN}
# Whose script it is; where several of them are configured, the script decides nothing.
_OWNERS: Final = {
    "ARABIC": ("ar", "fa", "ur"),
    "DEVANAGARI": ("hi", "mr"),
    "HANGUL": ("ko",),
    "GREEK": ("el",),
    "HEBREW": ("he",),
    "THAI": ("th",),
    "BENGALI": ("bn",),
    "GURMUKHI": ("pa",),
    "GUJARATI": ("gu",),
    "TAMIL": ("ta",),
    "TELUGU": ("te",),
    "GEORGIAN": ("ka",),
    "ARMENIAN": ("hy",),
}
_FOREIGN: Final = {"ar": frozenset("پچژگکیےںٹڈڑھہ")}  # of Persian and Urdu: the owner does not write them
_KANJI: Final = frozenset(  # written so in Japan only
    "気円図売読働込駅広々発楽塩蔵検渋戻辺畑対応変両歩帰転軽験険払価単厳収戦団囲壊県択沢済焼経総絵継続緑縁聴芸薬覚観訳"
    "豊賛遅郷鉄銭録関隠雑霊頼顔髪鶏黒黙齢歳"
)
_HANZI: Final = frozenset(  # words without which hardly a Chinese sentence does, and letters of Chinese alone
    "你的了我吗嗎吧呢们們这這没沒谁什么麼很把给給还還她请谢对脏轮扫厨关开门说话时间现钱费东车过让样头电书买卖别吃"
)
_SENTENCE: Final = 6  # Han letters in a row without kana: Japanese hardly ever has so many
_LETTERS_A_WORD: Final = 2  # of an unspaced script


@dataclass(frozen=True, slots=True)
class Shares:
    """How many words are in a script of one language, and how many (*open*) the scripts cannot decide."""

    language: str | None  # the one that owns the most of them
    owned: float
    open: float
    doubtful: bool  # Han letters that may be Chinese or Japanese

    @property
    def share(self) -> float:
        """The part of the text that the script has decided."""
        return self.owned / total if (total := self.owned + self.open) else 0.0


@lru_cache(maxsize=4096)
def script_of(letter: str) -> str:
    """The script of a letter, by the first word of its name."""
    return unicodedata.name(letter, "UNKNOWN").split(" ", 1)[0]


def shares(words: Sequence[str], languages: Collection[str]) -> Shares:
    """What the scripts of *words* say. A script of no configured language is as open as Latin."""
    owners = _owners(words, languages)
    counts: defaultdict[str | None, float] = defaultdict(float)
    runs: list[str] = []
    for word in words:
        runs.append("".join(letter for letter in word if script_of(letter) in _UNSPACED))
        rest = [script_of(letter) for letter in word if letter.isalpha() and script_of(letter) not in _UNSPACED]
        if rest:
            counts[owners.get(Counter(rest).most_common(1)[0][0])] += 1
    language, doubtful = _east_asian(runs, languages) if any(runs) else (None, False)
    counts[language] += sum(map(len, runs)) / _LETTERS_A_WORD
    undecided = counts.pop(None, 0.0)
    leader = max(counts, key=lambda code: counts[code], default=None)
    owned = counts[leader] if leader else 0.0
    return Shares(leader, owned, undecided + sum(counts.values()) - owned, doubtful)


def decided(languages: Collection[str]) -> dict[str, str]:
    """The scripts that leave one of the configured *languages* only, and that language."""
    left = {script: [owner for owner in owners if owner in languages] for script, owners in _OWNERS.items()}
    return {script: owners[0] for script, owners in left.items() if len(owners) == 1}


def _owners(words: Sequence[str], languages: Collection[str]) -> dict[str, str]:
    """As decided, unless a letter anywhere in the text is one that the owner of its script does not write."""
    letters = set().union(*words)
    return {
        script: owner
        for script, owner in decided(languages).items()
        if not _FOREIGN.get(owner, frozenset()).intersection(letters)
    }


def _east_asian(runs: Sequence[str], languages: Collection[str]) -> tuple[str | None, bool]:
    """Japanese has kana; Han letters alone are Chinese unless they are too few to say so."""
    letters = "".join(runs)
    if any(script_of(letter) in _KANA for letter in letters):
        return ("ja" if "ja" in languages else None), False
    if not {"ja", "zh"} <= set(languages):
        return next((language for language in ("zh", "ja") if language in languages), None), False
    if _KANJI.intersection(letters):
        return "ja", False
    return "zh", not _HANZI.intersection(letters) and max(map(len, runs)) < _SENTENCE
