"""Texts to word pieces with an encoder's special tokens, beside what transformers make of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_encoders import tiny_bert, tiny_xlnet
from tokenizers import Tokenizer, models

from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, ConfigError
from xmtc.text.subword_tokenizer import LONGEST_PIECE, SubwordTokenizer

TEXTS = ["Ship sail, wave!", "", " \n", "東京の街 корабль", "qwxz 🚢", "bread " * 80]


@pytest.fixture(scope="module", params=[tiny_bert, tiny_xlnet], ids=["bert", "xlnet"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    make: Callable[[Path], Path] = request.param
    return make(tmp_path_factory.mktemp("encoder"))


def ours(folder: Path) -> SubwordTokenizer:
    from transformers import AutoTokenizer

    return SubwordTokenizer(AutoTokenizer.from_pretrained(folder).backend_tokenizer)


@pytest.mark.parametrize("most", [4, 12, 64])
def test_ids_are_those_of_transformers(folder: Path, most: int) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(folder)(TEXTS, truncation=True, max_length=most)["input_ids"]
    found = [document.tolist() for document in ours(folder).encode(Strings.of(TEXTS), most)]
    assert found == theirs
    assert max(map(len, found)) == most


def test_special_tokens_stand_where_the_encoder_expects_them(folder: Path) -> None:
    from transformers import AutoTokenizer

    special = AutoTokenizer.from_pretrained(folder)
    tokenizer = ours(folder)
    cls, sep = special.cls_token_id, special.sep_token_id
    assert (tokenizer.before, tokenizer.after) == (
        ([], [sep, cls]) if special.padding_side == "left" else ([cls], [sep])
    )


def test_padding_and_truncation_that_were_saved_with_a_tokenizer_do_not_count(folder: Path) -> None:
    tokenizer = ours(folder)
    plain = tokenizer.encode(Strings.of(TEXTS), 40).ids.tolist()
    saved = Tokenizer.from_str(tokenizer.to_json())
    saved.enable_truncation(5)
    saved.enable_padding(length=30)
    assert SubwordTokenizer(saved).encode(Strings.of(TEXTS), 40).ids.tolist() == plain


def test_json_and_back(folder: Path) -> None:
    tokenizer = ours(folder)
    again = SubwordTokenizer.from_json(tokenizer.to_json())
    assert (again.before, again.after, len(again)) == (tokenizer.before, tokenizer.after, len(tokenizer))
    assert again.encode(Strings.of(TEXTS), 9).ids.tolist() == tokenizer.encode(Strings.of(TEXTS), 9).ids.tolist()


def test_no_texts(folder: Path) -> None:
    assert len(ours(folder).encode(Strings.of([]), 9)) == 0


def test_the_end_of_a_very_long_text_is_not_looked_at(folder: Path) -> None:
    long = "ship wave " * 10_000
    tokenizer = ours(folder)
    cut = tokenizer.encode(Strings.of([long, long[: 8 * LONGEST_PIECE]]), 8)
    assert cut[0].tolist() == cut[1].tolist()
    assert len(cut[0]) == 8


def test_no_room_for_text(folder: Path) -> None:
    with pytest.raises(ConfigError, match="max_tokens=2 leaves no room"):
        ours(folder).encode(Strings.of(TEXTS), 2)


@pytest.mark.parametrize("content", ["", "{}", "[1]", "\x80\x04", '{"model": {"type": "WordLevel"}}'])
def test_a_damaged_file_is_named(content: str) -> None:
    with pytest.raises(BadModelFolder, match=r"tokenizer\.json is damaged"):
        SubwordTokenizer.from_json(content)


@pytest.mark.parametrize(
    ("model", "words"), [(models.BPE(), "makes nothing"), (models.WordLevel({}), "Missing")], ids=["nothing", "error"]
)
def test_a_tokenizer_that_does_not_work(model: models.Model, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SubwordTokenizer(Tokenizer(model))
