"""What a word is: one set of rules, followed by the compiled counter (tf-idf) and by the HF tokenizer (sequences).

A text is put into Unicode normal form C; accents are removed and letters lower-cased if the rules say so. Then a word
is a run of letters, marks, digits and underscores, and each Chinese character is a word by itself, because Chinese
writes no spaces. Lower-casing goes code point by code point, so the result never depends on the letters around it.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.strings import Strings, StringsBuilder
from xmtc.extras import require

IDEOGRAPHS = (
    (0x3005, 0x3005),
    (0x3007, 0x3007),
    (0x3021, 0x3029),
    (0x3038, 0x303B),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2FA1F),
    (0x30000, 0x323AF),
)
#: Large blocks of letters without case, accents or compositions: no need to ask about each code point.
PLAIN_BLOCKS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0x17000, 0x187F7),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2EBE0),
    (0x30000, 0x323AF),
)
#: Beyond this lie only plain ideographs, variation selectors and private use.
LAST_VARIED = 0x30000


@dataclass(frozen=True)
class WordRules:
    """How words are found in a text.

    >>> list(WordRules().words("Die schöne Müllerin, Op. 25"))
    ['die', 'schöne', 'müllerin', 'op', '25']
    >>> list(WordRules(strip_accents=True, min_chars=3).words("Die schöne Müllerin, Op. 25"))
    ['die', 'schone', 'mullerin']
    >>> list(WordRules().words("東京 tower"))
    ['東', '京', 'tower']
    """

    lowercase: bool = True
    strip_accents: bool = False
    min_chars: int = 1

    def fold_table(self) -> NDArray[np.int32]:
        """For each code point what it becomes; see `xmtc.kernels.utf8_words`."""
        return _fold_table(self.lowercase, self.strip_accents)

    def words(self, text: str) -> Strings:
        """The words of one text, folded, in order."""
        from xmtc.kernels import utf8_words as kernel

        texts = self.normalised(Strings.of([text]))
        start, end = int(texts.starts[0]), int(texts.ends[0])
        words, _ = kernel.workspace(texts.starts, texts.ends, 0, 1)
        found = kernel.scan(texts.buffer, start, end, self.fold_table(), self.min_chars, words)
        spans = start + words.begins[:found], start + words.stops[:found]
        return Strings.from_offsets(*kernel.folded_terms(texts.buffer, *spans, self.fold_table(), self.min_chars))

    def folded(self, text: str) -> str:
        """The text as its words are compared, everything between them included.

        >>> WordRules(strip_accents=True).folded("Die schöne Müllerin!")
        'die schone mullerin!'
        """
        text = _normal(text, self.strip_accents)
        return "".join(character.lower()[0] for character in text) if self.lowercase else text

    def normalised(self, texts: Strings) -> Strings:
        """The texts in a form that the table folds rightly; those in it already, nearly all, are not copied."""
        from xmtc.kernels import utf8_words as kernel

        found = np.flatnonzero(kernel.suspects(texts.buffer, texts.starts, texts.ends, self.fold_table()))
        if not len(found):
            return texts
        builder = StringsBuilder()
        for at in found.tolist():
            builder.append(_normal(texts[at], self.strip_accents))
        # `texts` may be a few of a large corpus, whose whole buffer must not be copied.
        both = Strings.joined([texts, builder.build()])
        order = np.arange(len(texts))
        order[found] = np.arange(len(texts), len(both))
        return both[order]

    def hf_normalizer(self) -> Any:
        """The same folding as a normalizer of the `tokenizers` library."""
        require("a word tokenizer", "neural", "tokenizers")
        from tokenizers import Regex, normalizers

        steps: list[Any] = [normalizers.NFC()]
        if self.strip_accents:
            # Not the library's StripAccents, which removes the vowel signs of Indic scripts too.
            steps += [normalizers.NFD(), normalizers.Replace(Regex(r"\p{Mn}"), ""), normalizers.NFC()]
        if self.lowercase:
            # The one letter whose lower case is two code points.
            steps += [normalizers.Replace("İ", "i"), normalizers.Lowercase()]
        return normalizers.Sequence(steps)

    def hf_pre_tokenizer(self) -> Any:
        """The same words as a pre-tokenizer of the `tokenizers` library."""
        require("a word tokenizer", "neural", "tokenizers")
        from tokenizers import Regex, pre_tokenizers

        ideograph = "[" + "".join(rf"\x{{{a:X}}}-\x{{{b:X}}}" for a, b in IDEOGRAPHS) + "]"
        run = rf"(?:(?!{ideograph})[\p{{L}}\p{{M}}\p{{N}}_]){{{max(self.min_chars, 1)},}}"
        return pre_tokenizers.Split(Regex(rf"{ideograph}|{run}"), behavior="removed", invert=True)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the words of a text stand, as (start, end) in characters.

        >>> WordRules().spans("Op. 25")
        [(0, 2), (4, 6)]
        """
        from xmtc.kernels.utf8_words import SEPARATOR

        table = self.fold_table()
        letters = {each for each in set(text) if table[ord(each)] != SEPARATOR}
        alone = {each for each in letters if any(first <= ord(each) <= last for first, last in IDEOGRAPHS)}
        found, start, least = [], 0, max(self.min_chars, 1)
        for at, character in enumerate([*text, ""]):
            if character in letters and character not in alone:
                continue
            if at - start >= least:
                found.append((start, at))
            if character in alone:
                found.append((at, at + 1))
            start = at + 1
        return found


@lru_cache(maxsize=4)
def _fold_table(lowercase: bool, strip_accents: bool) -> NDArray[np.int32]:
    from xmtc.kernels.utf8_words import DROPPED, IDEOGRAPH, SEPARATOR, SUSPECT

    table = np.full(0x110000, SEPARATOR, np.int32)
    plain = np.zeros(0x110000, bool)
    for first, last in PLAIN_BLOCKS:
        plain[first : last + 1] = True
    table[plain] = np.flatnonzero(plain)
    varied = [*np.flatnonzero(~plain[:LAST_VARIED]).tolist(), *range(0xE0100, 0xE01F0)]
    for code in varied:
        folded = _folded(chr(code), lowercase, strip_accents)
        if not folded:
            table[code] = DROPPED
        elif _in_words(folded[0]):
            table[code] = ord(folded[0])
    for first, last in IDEOGRAPHS:
        block = table[first : last + 1]
        block[block != SEPARATOR] |= IDEOGRAPH
    table[[code for code in varied if _may_change(chr(code), strip_accents)]] |= SUSPECT
    # DROPPED is -1, all bits set: SUSPECT leaves it as it is, and what is dropped needs no normal form.
    return table


def _in_words(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character == "_"


def _normal(text: str, strip_accents: bool) -> str:
    """Normal form C, on request without accents."""
    text = unicodedata.normalize("NFC", text)
    if strip_accents:
        bare = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        text = unicodedata.normalize("NFC", bare)
    return text


def _folded(char: str, lowercase: bool, strip_accents: bool) -> str:
    char = _normal(char, strip_accents)
    return char.lower()[:1] if lowercase else char


@lru_cache(maxsize=1)
def _composing() -> frozenset[str]:
    """Characters that may melt into the one before them under normal form C."""
    seconds = set(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))))  # Hangul vowels and finals
    for code in range(LAST_VARIED):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(chr(int(parts[1], 16)))
    return frozenset(seconds)


def _may_change(char: str, strip_accents: bool) -> bool:
    """Whether a text with this character cannot be folded character by character before it is normalised."""
    return (
        unicodedata.combining(char) != 0
        or char in _composing()
        or not unicodedata.is_normalized("NFC", char)
        or len(_normal(char, strip_accents)) > 1
    )
