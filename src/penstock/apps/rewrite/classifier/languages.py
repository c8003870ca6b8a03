"""The languages that can be told apart, and the models that do it.

The models are large (about 20 MB a language), are read when a text first needs
them, and are shared by everything in the process.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING, Final

from penstock.apps.rewrite.classifier import scripts
from penstock.apps.rewrite.locales import normalized
from penstock.contract.errors import SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingua import Language, LanguageDetector

# The ten that have rule files, and what else a shared home needs while the models stay below 300 MB.
DEFAULT: Final = ("en", "es", "de", "fr", "pt", "it", "nl", "ja", "zh", "hi")
DEFAULT_MORE: Final = ("pl", "vi", "fil", "mi", "ko", "el", "he", "th", "ar", "ru", "uk")
_FOILS: Final = ("en", "es")  # one language alone can be compared with nothing

_detectors: dict[frozenset[str], LanguageDetector] = {}
_making = Lock()


@lru_cache(maxsize=1)
def known() -> dict[str, Language]:
    """Every language there is a model for, by its code."""
    from lingua import Language

    named = {normalized(language.iso_code_639_1.name): language for language in Language.all()}
    return {code: language for code, language in sorted(named.items(), key=str) if code}


def chosen(languages: Sequence[str] | None) -> frozenset[str]:
    """The codes of the configured *languages*; one that cannot be told is `SettingsInvalid`."""
    if languages is None:
        return frozenset((*DEFAULT, *DEFAULT_MORE))
    return frozenset(map(_code, languages))


def _code(tag: str) -> str:
    code = normalized(tag)
    if code is None or code not in known():
        raise SettingsInvalid(
            f"the language {str(tag)[:20]!r} cannot be recognised; choose from {', '.join(sorted(known()))}"
        )
    return code


def detector(languages: Iterable[str]) -> LanguageDetector | None:
    """The detector for those of *languages* that no script decides; None where none is left.

    Made once in a process and kept; another thread that wants the same one waits for it.
    """
    wanted = set(languages)
    wanted -= {"ja", "zh", *scripts.decided(wanted).values()}
    if not wanted:
        return None
    key = frozenset(wanted if len(wanted) > 1 else {*wanted, *_FOILS})
    with _making:
        if key not in _detectors:
            _detectors[key] = _made(key)
        return _detectors[key]


def _made(codes: frozenset[str]) -> LanguageDetector:
    """A detector whose Latin models are read; those of other scripts are read when a text in them comes.

    One model at a time: nothing else in the process runs while one is read,
    and half a second is a pause where four are an outage.
    """
    from lingua import Language, LanguageDetectorBuilder

    tongues = [known()[code] for code in sorted(codes)]
    latin = [tongue for tongue in tongues if tongue in Language.all_with_latin_script()]
    for one, other in pairwise(latin):
        LanguageDetectorBuilder.from_languages(one, other).with_preloaded_language_models().build()
        sleep(0)
    return LanguageDetectorBuilder.from_languages(*tongues).build()
