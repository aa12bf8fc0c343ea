"""Annif's corpora and vocabularies: what is read of them, bad ones are named, other formats are not taken for them."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from corpora import assert_same, rows
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.builder import ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.folder import has_part
from xmtc.corpus.formats import annif
from xmtc.corpus.formats.table import labels_as_cell, labels_in_cell
from xmtc.corpus.io import detect, locate, read, read_label_set, write
from xmtc.corpus.sources import Source
from xmtc.errors import BadInput, ConfigError, XmtcError

BREAD, FAT = "http://example.org/bread", "http://example.org/fat"
SHORT = f"dough rises\t<{BREAD}> <{FAT}>\nolive oil\t<{FAT}>\nnothing\t\n"
VOCABULARY = f"<{BREAD}>\tBread\t641.8\n<{FAT}>\tFats and oils\n<http://example.org/old>\n"
TABLE = f"uri,label_en,label_de,notation\n{BREAD},Bread,Brot,641.8\n{FAT},Fats and oils,,\n"


def put(folder: Path, **files: str | bytes) -> Path:
    """Write files; `__` in a name stands for a dot."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        raw = content if isinstance(content, bytes) else content.encode()
        (folder / name.replace("__", ".")).write_bytes(raw)
    return folder


class TestShortTexts:
    @pytest.mark.parametrize("name", ["docs.tsv", "docs.tsv.gz", "docs.txt", "docs", "docs.annif.tsv"])
    def test_uris_become_keys(self, name: str, tmp_path: Path) -> None:
        content = SHORT.encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        assert detect(Source(tmp_path / name)) == "annif"
        corpus = read(tmp_path / name)
        assert corpus.texts is not None and list(corpus.texts) == ["dough rises", "olive oil", "nothing"]
        assert rows(corpus) == [{BREAD, FAT}, {FAT}, set()]

    def test_names_come_from_the_vocabulary(self, tmp_path: Path) -> None:
        put(tmp_path, docs__tsv=SHORT, vocabulary__tsv=VOCABULARY)
        labels = read(tmp_path / "docs.tsv", label_set=tmp_path / "vocabulary.tsv").labels
        assert labels.name(labels.index(FAT)) == "Fats and oils" and len(labels) == 3

    def test_a_vocabulary_called_labels_is_found_beside(self, tmp_path: Path) -> None:
        put(tmp_path, docs__tsv=SHORT, labels__tsv=VOCABULARY)
        assert read(tmp_path / "docs.tsv").labels.name(0) == "Bread"

    def test_words_without_brackets_if_the_format_is_given(self, tmp_path: Path) -> None:
        put(tmp_path, docs__tsv="a text\tbread fat\n")
        assert rows(read(tmp_path / "docs.tsv", format="annif")) == [{"bread", "fat"}]

    def test_what_is_written_comes_back(self, tmp_path: Path) -> None:
        corpus = Corpus.of(["a\tb\nc", "d"], [[BREAD, FAT], []])
        write(corpus, tmp_path / "docs.annif.tsv.gz")
        assert_same(read(tmp_path / "docs.annif.tsv.gz"), Corpus.of(["a b c", "d"], [[BREAD, FAT], []]))

    @pytest.mark.parametrize(("label", "why"), [("a b", "white space"), ("<a>", "angle brackets"), ("a>", "angle")])
    def test_labels_that_do_not_fit_are_refused(self, label: str, why: str, tmp_path: Path) -> None:
        with pytest.raises(XmtcError, match=why):
            write(Corpus.of(["a"], [[label]]), tmp_path / "docs.annif.tsv")

    def test_blank_lines_are_counted(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        put(tmp_path, docs__tsv=SHORT + "\n \n")
        assert len(read(tmp_path / "docs.tsv")) == 3
        assert "docs.tsv: blank lines left out: 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("d.tsv", "text\tlabels\na\t<http://x/y>\n", "table"),
        ("d.tsv", "id\ttext\tlabels\n1\ta\tb\n", "table"),
        ("d.tsv", "title\ttags\na\tb\n", "table"),
        ("d.csv", "text,subject_uris\na,<http://x/y>\n", "table"),
        ("d.txt", "__label__a text\t<http://x/y>\n", "fasttext"),
        ("d.txt", "0 1:2\n", "xmc"),
        ("d.jsonl", '{"text": "a\\t<http://x/y>", "labels": []}\n', "jsonl"),
        ("d.txt", "just words\t<b>and more</b>\n", "fasttext"),
        ("d.txt", "just words\t<http://x/y> and more\n", "fasttext"),
        ("d.txt", "a\t<http://x/y>\nb\tno brackets\n", "fasttext"),
        ("d.txt", "a\t\nb\t\n", "fasttext"),
        ("d.txt", "<http://x/y>\n", "fasttext"),
        ("d_texts.txt", "a\tb\n", "textpair"),
    ],
)
def test_other_formats_are_not_taken_for_short_texts(name: str, content: str, format: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert detect(Source(tmp_path / name), unlabelled=True) == format


@given(st.text(st.characters(exclude_characters="<>\0", exclude_categories=["Cs"])))
def test_no_file_without_brackets_is_taken_for_short_texts(text: str) -> None:
    assert not annif.sniff(text.encode())


@given(st.lists(st.text(st.sampled_from('<>a:/ ;|\t[]"'), min_size=1), max_size=3))
def test_any_label_in_a_cell_comes_back(labels: list[str]) -> None:
    found = labels_in_cell(labels_as_cell(labels), ReadOptions(), "|")
    assert found == [label for label in labels if label.strip()] or found == labels


class TestCsv:
    def test_subject_uris_are_labels(self, tmp_path: Path) -> None:
        put(tmp_path, docs__csv=f"text,subject_uris\ndough,<{BREAD}> <{FAT}>\noil,<{FAT}>\nnone,\n")
        assert rows(read(tmp_path / "docs.csv")) == [{BREAD, FAT}, {FAT}, set()]

    def test_a_column_called_labels_comes_first(self, tmp_path: Path) -> None:
        put(tmp_path, docs__csv=f"text,subject_uris,labels\ndough,<{BREAD}>,x\n")
        assert rows(read(tmp_path / "docs.csv")) == [{"x"}]
        assert rows(read(tmp_path / "docs.csv", labels="subject_uris")) == [{BREAD}]

    def test_tags_of_markup_are_labels_as_they_are(self, tmp_path: Path) -> None:
        put(tmp_path, docs__csv="text,labels\na,<br>|<p>\nb,<br>\n")
        assert rows(read(tmp_path / "docs.csv")) == [{"<br>", "<p>"}, {"<br>"}]


class TestFullTexts:
    def test_texts_with_keys_of_both_kinds(self, tmp_path: Path) -> None:
        put(
            tmp_path / "c",
            b__txt="olive oil\nline two",
            b__key="Fats\nSalad\n\n",
            a__txt="dough",
            a__tsv=f"<{BREAD}>\tBread\n",
        )
        corpus = read(tmp_path / "c")
        assert corpus.texts is not None and list(corpus.texts) == ["dough", "olive oil\nline two"]
        assert [corpus.id(0), corpus.id(1)] == ["a", "b"]
        assert rows(corpus) == [{BREAD}, {"Fats", "Salad"}]
        assert [corpus.labels.name(at) for at in range(3)] == ["Bread", "Fats", "Salad"]

    def test_names_are_looked_up_in_the_vocabulary(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        put(tmp_path / "c", a__txt="oil", a__key="Fats and oils\nOlives\n", labels__tsv=VOCABULARY)
        assert rows(read(tmp_path / "c")) == [{FAT, "Olives"}]
        assert "c: names that no label of the label set has: 1, such as 'Olives'" in capsys.readouterr().err

    def test_of_two_files_tsv_is_read_and_that_is_said(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        put(tmp_path / "c", a__txt="oil", a__key="Fats\n", a__tsv=f"<{FAT}>\n")
        assert rows(read(tmp_path / "c")) == [{FAT}]
        assert "documents with .tsv and .key, of which .tsv is read: 1" in capsys.readouterr().err

    def test_parts_are_folders(self, tmp_path: Path) -> None:
        put(tmp_path / "train", a__txt="oil", a__key="Fats\n")
        put(tmp_path / "test", b__txt="rye", b__key="Bread\n")
        assert has_part(tmp_path, "test")
        assert read(tmp_path, part="train").id(0) == "a" and read(tmp_path, part="test").id(0) == "b"

    def test_texts_to_be_tagged_need_no_labels(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        put(tmp_path / "c", a__txt="\ufeffoil", b__txt="")
        corpus = read(tmp_path / "c", unlabelled=True)
        assert corpus.texts is not None and list(corpus.texts) == ["oil", ""]
        assert ".txt files without labels, each of them a document: 2" in capsys.readouterr().err

    def test_other_folders_are_not_taken_for_it(self, tmp_path: Path) -> None:
        put(tmp_path / "c", train__csv="text,labels\na,b\n", README__txt="read me", README__key="x\n")
        assert locate(tmp_path / "c")[1] == "table"
        put(tmp_path / "d", README__txt="read me", docs__csv="text,labels\na,b\n")
        with pytest.raises(BadInput, match="the folder has no train file"):
            read(tmp_path / "d", unlabelled=True)

    def test_bad_documents_can_be_skipped(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        put(tmp_path / "c", a__txt="oil", a__key="Fats\n", b__txt="rye", c__txt=b"\xff", c__key="x\n")
        assert len(read(tmp_path / "c", skip_bad=True)) == 1
        assert "2 bad lines skipped, 1 documents read" in capsys.readouterr().err

    def test_nothing_is_written(self, tmp_path: Path) -> None:
        with pytest.raises(XmtcError, match="folders of texts are only read"):
            write(Corpus.of(["a"], [["x"]]), tmp_path / "c", "fulltext")


class TestVocabularies:
    def test_lines(self, tmp_path: Path) -> None:
        labels = read_label_set(put(tmp_path, v__tsv=VOCABULARY) / "v.tsv")
        assert list(labels.keys) == [BREAD, FAT, "http://example.org/old"]
        assert [labels.name(at) for at in range(3)] == ["Bread", "Fats and oils", "http://example.org/old"]
        assert labels.alternatives(0) == ["641.8"] and labels.alternatives(1) == []

    @pytest.mark.parametrize(
        ("language", "names", "others"),
        [
            ("en", ["Bread", "Fats and oils"], ["641.8"]),
            ("de", ["Brot", FAT], ["641.8"]),
            ("de, en", ["Brot", FAT], ["Bread", "641.8"]),
        ],
    )
    def test_table(self, language: str, names: list[str], others: list[str], tmp_path: Path) -> None:
        labels = read_label_set(put(tmp_path, v__csv=TABLE) / "v.csv", language)
        assert [labels.name(at) for at in range(2)] == names
        assert labels.alternatives(0) == others

    @pytest.mark.needs("rdflib")
    def test_skos_with_hidden_labels_notations_and_languages(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        turtle = f"""@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
        <{BREAD}> a skos:Concept ; skos:prefLabel "Bread"@en, "Brot"@de ; skos:altLabel "Loaf"@en, "Laib"@de ;
            skos:hiddenLabel "Bred"@en ; skos:notation "641.8" .
        <{FAT}> a skos:Concept ; skos:prefLabel "Fett"@de .
        """
        path = put(tmp_path, v__ttl=turtle) / "v.ttl"
        labels = read_label_set(path)
        assert labels.alternatives(0) == ["Bred", "Loaf", "641.8"]
        assert "v.ttl: names that are not in the language 'en': 1" in capsys.readouterr().err
        labels = read_label_set(path, "de,en")
        assert labels.name(0) == "Brot" and labels.alternatives(0) == ["Laib", "Bread", "Bred", "Loaf", "641.8"]

    def test_no_language(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="no language is named"):
            read_label_set(put(tmp_path, v__csv=TABLE) / "v.csv", " , ")


@dataclass(frozen=True)
class Case:
    """Files that must be refused: what is read of them, and the beginning of the sentence."""

    files: Mapping[str, str | bytes]
    path: str
    sentence: str
    options: Mapping[str, object] = field(default_factory=dict)


SKIP = "; mend the line, or skip bad lines with --skip-bad"
BAD = {
    "no tab": Case({"d.tsv": SHORT + "no tab\n"}, "d.tsv", "d.tsv:4: no tab between the text and its labels" + SKIP),
    "not closed": Case(
        {"d.tsv": SHORT + "a\t<http://x\n"}, "d.tsv", "d.tsv:4: '<http://x' has but one of two angle brackets"
    ),
    "not opened": Case(
        {"d.tsv": SHORT + "a\thttp://x>\n"}, "d.tsv", "d.tsv:4: 'http://x>' has but one of two angle brackets"
    ),
    "empty brackets": Case({"d.tsv": SHORT + "a\t<>\n"}, "d.tsv", "d.tsv:4: one of the labels is empty"),
    "a blank in brackets": Case({"d.tsv": SHORT + "a\t<http://x y>\n"}, "d.tsv", "d.tsv:4: '<http://x' has but one"),
    "not UTF-8": Case({"d.tsv": SHORT.encode() + b"\xff\t<http://x>\n"}, "d.tsv", "d.tsv:4: not UTF-8: byte 0xff"),
    "no label": Case({"d.tsv": "a\t\n"}, "d.tsv", "d.tsv: no document has a label", {"format": "annif"}),
    "no document": Case({"d.tsv": "\n\n"}, "d.tsv", "d.tsv: there is no document in it", {"format": "annif"}),
    "damaged gzip": Case({"d.tsv.gz": gzip.compress(SHORT.encode())[:-9]}, "d.tsv.gz", "d.tsv.gz: the gzip file is"),
    "fields to keep": Case({"d.tsv": SHORT}, "d.tsv", "d.tsv: annif files have no fields to keep", {"keep": ["year"]}),
    "no labels file": Case(
        {"a.txt": "a", "a.key": "x", "b.txt": "b"}, ".", "b.txt: neither b.tsv nor b.key with its labels is beside it"
    ),
    "no labels anywhere": Case({"a.txt": "a"}, ".", ": the folder has no train file (there is: a.txt)"),
    "nothing but keys": Case({"a.key": "x"}, ".", ": the folder has no train file (there is: a.key)"),
    "folder forced": Case({"a.csv": "x"}, ".", ": there is no document in it", {"format": "fulltext"}),
    "file forced": Case({"a.txt": "x"}, "a.txt", "a.txt: a folder of .txt files was expected", {"format": "fulltext"}),
    "empty keys": Case({"a.txt": "a", "a.key": "\n"}, ".", ": no document has a label"),
    "key not UTF-8": Case({"a.txt": "a", "a.key": b"x\n\xff\n"}, ".", "a.key:2: not UTF-8: byte 0xff at column 1"),
    "text not UTF-8": Case({"a.txt": b"a\n\xe4", "a.key": "x"}, ".", "a.txt:2: not UTF-8: byte 0xe4 at column 1"),
    "text binary": Case({"a.txt": b"\0\1", "a.key": "x"}, ".", "a.txt:1: this is a binary file, not text"),
    "key binary": Case({"a.txt": b"a", "a.key": b"\0\1"}, ".", "a.key:1: this is a binary file, not text"),
    "key not closed": Case({"a.txt": "a", "a.tsv": "<http://x\tX"}, ".", "a.tsv:1: '<http://x' has but one of two"),
    "key empty": Case({"a.txt": "a", "a.tsv": "<http://x>\n<>\tX"}, ".", "a.tsv:2: one of the labels is empty"),
    "CSV without labels": Case({"d.csv": "text,uris\na,b\n"}, "d.csv", "d.csv:1: no column 'labels'"),
    "CSV with two": Case(
        {"d.csv": "text,subject_uris,subject_uris\na,b,c\n"}, "d.csv", "d.csv:1: 2 columns are called 'subject_uris'"
    ),
}
VOCABULARIES = {
    "twice": Case({"v.tsv": VOCABULARY + f"<{FAT}>\tx\n"}, "v.tsv", f"v.tsv:4: the label '{FAT}' occurs twice"),
    "not closed": Case({"v.tsv": VOCABULARY + "<http://x\tx\n"}, "v.tsv", "v.tsv:4: '<http://x' has but one of two"),
    "empty": Case({"v.tsv": VOCABULARY + "<>\tx\n"}, "v.tsv", "v.tsv:4: one of the labels is empty"),
    "no URI": Case({"v.tsv": VOCABULARY + "\tx\n"}, "v.tsv", "v.tsv:4: one of the labels is empty"),
    "not UTF-8": Case({"v.tsv": VOCABULARY.encode() + b"<\xff>\tx\n"}, "v.tsv", "v.tsv:4: not UTF-8: byte 0xff"),
    "no header": Case({"v.tsv": "bread\tBread\n"}, "v.tsv", "v.tsv:1: no column 'label' in the header"),
    "CSV no URI": Case({"v.csv": "label_en\nBread\n"}, "v.csv", "v.csv:1: no columns 'uri' and 'label_en'"),
    "CSV no label": Case({"v.csv": "uri,name\nx,y\n"}, "v.csv", "v.csv:1: no columns 'uri' and 'label_en'"),
    "CSV empty": Case({"v.csv": ""}, "v.csv", "v.csv:1: no columns 'uri' and 'label_en' (columns found: none)"),
    "CSV other language": Case(
        {"v.csv": "uri,label_fi\nx,y\n"}, "v.csv", "v.csv:1: no labels in the language 'en' (languages found: fi); name"
    ),
    "CSV header alone": Case({"v.csv": "uri,label_en\n"}, "v.csv", "v.csv: there is no label in it"),
    "CSV too many cells": Case({"v.csv": TABLE + "a,b,c,d,e\n"}, "v.csv", "v.csv:4: 5 cells, but the header has 4"),
    "CSV empty URI": Case({"v.csv": TABLE + ",b,c,d\n"}, "v.csv", "v.csv:4: one of the labels is empty"),
    "CSV twice": Case({"v.csv": TABLE + f"{FAT},b,c,d\n"}, "v.csv", f"v.csv:4: the label '{FAT}' occurs twice"),
    "CSV open quote": Case({"v.csv": TABLE + '"a,b,c,d\n'}, "v.csv", "v.csv:4: not CSV: unexpected end of data"),
    "CSV not UTF-8": Case({"v.csv": TABLE.encode() + b"\xff,b,c,d\n"}, "v.csv", "v.csv:4: not UTF-8: byte 0xff"),
    "other suffix": Case(
        {"v.txt": "x"}, "v.txt", "v.txt: this suffix is not that of a label set; known suffixes: .tsv"
    ),
}


def refused(case: Case, folder: Path, error: BaseException) -> None:
    message = str(error)
    there = str(folder) if case.path == "." and case.sentence.startswith(":") else f"{folder}/"
    assert message.startswith(there + case.sentence)
    assert "\n" not in message


@pytest.mark.parametrize("what", BAD)
def test_bad_corpora_are_named(what: str, tmp_path: Path) -> None:
    case = BAD[what]
    for name, content in case.files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(XmtcError) as caught:
        read(tmp_path / case.path, **case.options)  # type: ignore[arg-type]
    refused(case, tmp_path, caught.value)


@pytest.mark.parametrize("what", VOCABULARIES)
def test_bad_vocabularies_are_named(what: str, tmp_path: Path) -> None:
    case = VOCABULARIES[what]
    for name, content in case.files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as caught:
        read_label_set(tmp_path / case.path)
    refused(case, tmp_path, caught.value)
