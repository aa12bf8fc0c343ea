"""What a word is: the compiled counter and the HF tokenizer against a plain reference, on any text."""

from __future__ import annotations

import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xmtc.corpus.strings import Strings
from xmtc.text.word_rules import IDEOGRAPHS, WordRules

RULES = [
    WordRules(),
    WordRules(lowercase=False),
    WordRules(strip_accents=True),
    WordRules(lowercase=False, strip_accents=True, min_chars=2),
    WordRules(min_chars=3),
]
# Letters of many scripts, separators, marks that compose, reorder or stand alone, ideographs, and anything else.
TRICKY = (
    "aZß é É e\u0301 E\u0301\u0323 İIıi ŀΣσς ﬁ ² ½ _ - ' \u200d \u200b 東京々〇 한글 \u1100\u1161\u11a8 "
    "हिन्दी ไทย \u0958 \u0ccb 🚢 Ⅷ Ǆ"
)
texts = st.text(st.one_of(st.sampled_from(TRICKY), st.characters(exclude_categories=["Cs", "Cn"])), max_size=40)


def reference_words(text: str, rules: WordRules) -> list[str]:
    """The rules as their docstring says them, a character at a time."""
    text = unicodedata.normalize("NFC", text)
    if rules.strip_accents:
        bare = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        text = unicodedata.normalize("NFC", bare)
    if rules.lowercase:
        text = "".join(c.lower()[0] for c in text)
    words, word = [], ""
    for c in [*text, " "]:
        ideograph = any(first <= ord(c) <= last for first, last in IDEOGRAPHS)
        inside = unicodedata.category(c)[0] in "LMN" or c == "_"
        if inside and not ideograph:
            word += c
            continue
        if len(word) >= rules.min_chars and word:
            words.append(word)
        word = ""
        if inside:
            words.append(c)
    return words


@pytest.mark.parametrize("rules", RULES, ids=str)
@settings(max_examples=300, deadline=None)
@given(text=texts)
@example(text=TRICKY)
@example(text="")
def test_compiled_words_equal_the_reference(rules: WordRules, text: str) -> None:
    assert list(rules.words(text)) == reference_words(text, rules)


@pytest.mark.needs("tokenizers")
@pytest.mark.parametrize("rules", RULES, ids=str)
@settings(max_examples=300, deadline=None)
@given(text=texts)
@example(text=TRICKY)
def test_hf_words_equal_the_reference(rules: WordRules, text: str) -> None:
    """The `tokenizers` library brings Unicode tables of its own, so characters newer than Python's are left out."""
    from tokenizers import Tokenizer, models

    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer.normalizer = rules.hf_normalizer()
    tokenizer.pre_tokenizer = rules.hf_pre_tokenizer()
    normal = tokenizer.normalizer.normalize_str(text)
    assert [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)] == reference_words(text, rules)


@pytest.mark.parametrize("rules", RULES, ids=str)
@settings(max_examples=300, deadline=None)
@given(text=texts)
@example(text=TRICKY)
@example(text="")
def test_spans_are_where_the_words_stand(rules: WordRules, text: str) -> None:
    """Marks that melt into a letter, or vanish, make a word shorter; in a text without them each word is its span."""
    normal = unicodedata.normalize("NFC", text)
    spans = rules.spans(normal)
    assert all(0 <= start < end <= len(normal) for start, end in spans)
    assert spans == sorted(spans)
    if not rules.strip_accents:
        assert [rules.folded(normal[start:end]) for start, end in spans] == reference_words(text, rules)


@pytest.mark.needs("tokenizers")
@pytest.mark.parametrize("rules", RULES, ids=str)
@settings(max_examples=300, deadline=None)
@given(text=texts)
@example(text=TRICKY)
def test_spans_and_folding_are_those_of_the_hf_tokenizer(rules: WordRules, text: str) -> None:
    assert rules.spans(text) == [span for _, span in rules.hf_pre_tokenizer().pre_tokenize_str(text)]
    assert rules.folded(text) == rules.hf_normalizer().normalize_str(text)


def test_every_code_point_by_itself() -> None:
    """Each assigned code point between two letters, in blocks of a thousand."""
    for rules in RULES[:3]:
        block: list[str] = []
        for code in range(sys.maxunicode + 1):
            if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co"):
                block.append(f"a{chr(code)}b")
            if len(block) == 1000 or code == sys.maxunicode:
                text = " ".join(block)
                assert list(rules.words(text)) == reference_words(text, rules)
                block = []


def test_texts_in_normal_form_are_not_copied() -> None:
    plain = Strings.of(["Straße", "東京", "déjà vu"])
    assert WordRules().normalised(plain) is plain
    mixed = Strings.of(["Straße", "de\u0301ja\u0300 vu"])
    assert list(WordRules().normalised(mixed)) == ["Straße", "déjà vu"]


@pytest.mark.parametrize(
    "broken", [b"\xe6\x9d", b"\xf0\x9f\x9a", b"\xc3", b"\xff", b"\xf4\xbf\xbf\xbf", b"\x80", b"\xf7\x81\x81\x81"]
)
def test_broken_utf8_is_read_within_its_bounds(broken: bytes) -> None:
    """Texts are valid UTF-8; should one not be, what lies behind it in memory must not matter."""
    from xmtc.text.tfidf import TfIdf, TfIdfSettings

    found = []
    for behind in (b"aaaa", b"\xb1\xb1\xb1\xb1"):
        memory = np.frombuffer(b"ship " + broken + behind, np.uint8)
        text = Strings(memory, np.array([0]), np.array([len(memory) - len(behind)]))
        tfidf = TfIdf(TfIdfSettings(min_chars=1))
        found.append((tfidf.fit_transform(text).data.tolist(), tfidf._keys.tolist()))
    assert found[0] == found[1]


def test_normalising_a_few_texts_does_not_copy_all() -> None:
    corpus = Strings.of(["x" * 1_000_000, "e\u0301te\u0301", "plain"])
    changed = WordRules().normalised(corpus[1:])
    assert list(changed) == ["été", "plain"]
    assert len(changed.buffer) < 100
