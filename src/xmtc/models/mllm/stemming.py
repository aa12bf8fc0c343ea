"""Words without their endings, by language: Snowball's stemmers, from the extra `stemming`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xmtc.errors import ConfigError
from xmtc.extras import require

_NAMES = (
    "ar:arabic ca:catalan da:danish de:german el:greek en:english es:spanish et:estonian fi:finnish fr:french hi:hindi "
    "hu:hungarian hy:armenian id:indonesian it:italian nl:dutch no:norwegian pt:portuguese ro:romanian ru:russian "
    "sr:serbian sv:swedish ta:tamil tr:turkish"
)
#: ISO 639-1 code -> the stemmer's name
STEMMERS = dict(pair.split(":") for pair in _NAMES.split())


def check_languages(what: str, languages: Iterable[str]) -> None:
    """A ConfigError if a language has no stemmer, a MissingExtra if the stemmers are not installed.

    >>> check_languages("mllm", [])
    >>> check_languages("mllm", ["xx"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    xmtc.errors.ConfigError: mllm: there is no stemmer for the language 'xx'; there are: ar, ca, da, ...
    """
    languages = list(languages)
    for language in languages:
        if language not in STEMMERS:
            raise ConfigError(
                f"{what}: there is no stemmer for the language {language!r}; there are: {', '.join(STEMMERS)}"
            )
    if languages:
        require(f"{what} with stems of {', '.join(languages)}", "stemming")


def stems(words: Sequence[str], language: str | None) -> list[str]:
    """The stem of each word; the words themselves without a language.

    >>> stems(["cats", "cat"], None)
    ['cats', 'cat']
    """
    if language is None:
        return list(words)
    import Stemmer

    # A stemmer of its own for each call: they must not be shared by threads.
    found: list[str] = Stemmer.Stemmer(STEMMERS[language]).stemWords(list(words))
    return found
