"""SKOS vocabularies in all their syntaxes."""

from __future__ import annotations

import gzip
import socket
import sys
from pathlib import Path

import pytest

from xmtc.corpus import skos
from xmtc.corpus.io import read, read_label_set
from xmtc.errors import BadInput, MissingExtra

TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix : <http://example.org/> .
:food a skos:Concept ; skos:prefLabel "Essen"@de, "Food"@en ; skos:narrower :bread .
:bread a skos:Concept ; skos:prefLabel "Brot"@de, "Bread"@en, "Bread (plain)" ;
    skos:altLabel "Loaf"@en, "Bun"@en, "Laib"@de ; skos:definition "Baked dough"@en ; skos:scopeNote "No cake"@en .
:roll a skos:Concept ; skos:prefLabel "Semmel"@de-AT, "Zemlja"@sl ; skos:broader :bread, :food, <http://other.org/x> ;
    skos:scopeNote "Small" .
:bare a skos:Concept ; skos:broader :gone .
:gone a skos:Concept ; owl:deprecated true ; skos:prefLabel "Gone"@en .
"""
FOOD, BREAD, ROLL, BARE = (f"http://example.org/{name}" for name in ("food", "bread", "roll", "bare"))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("reading a vocabulary must not use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def written(folder: Path, suffix: str) -> Path:
    from rdflib import Graph

    graph = Graph().parse(data=TURTLE, format="turtle")
    content = graph.serialize(
        format={".rdf": "pretty-xml", ".nt": "nt", ".jsonld": "json-ld", ".ttl": "turtle"}[suffix]
    )
    path = folder / f"vocabulary{suffix}"
    path.write_text(content)
    return path


@pytest.mark.parametrize("suffix", [".rdf", ".nt", ".jsonld", ".ttl"])
def test_concepts(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = read_label_set(written(tmp_path, suffix))
    assert list(labels.keys) == [BARE, BREAD, FOOD, ROLL]
    assert [labels.name(at) for at in range(4)] == [BARE, "Bread", "Food", "Semmel"]
    assert labels.alternatives(1) == ["Bun", "Loaf"]
    assert [labels.description(at) for at in range(4)] == ["", "Baked dough", "", "Small"]
    assert [labels.parents_of(at) for at in range(4)] == [[], [2], [], [1, 2]]
    said = capsys.readouterr().err
    assert "1 deprecated concepts left out" in said
    assert "2 broader links to concepts that are not in it left out" in said


@pytest.mark.parametrize(
    ("language", "names", "alternatives"),
    [
        ("de", ["Brot", "Essen", "Semmel"], ["Laib"]),
        ("fr", ["Bread (plain)", "Food", "Semmel"], []),
        ("sl", ["Bread (plain)", "Food", "Zemlja"], []),
    ],
)
def test_languages(language: str, names: list[str], alternatives: list[str], tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.ttl"
    path.write_text(TURTLE)
    labels = skos.read_labels(path, [language])
    assert [labels.name(at) for at in (1, 2, 3)] == names
    assert labels.alternatives(1) == alternatives


def test_gzip_and_as_the_label_set_of_a_corpus(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.ttl.gz"
    path.write_bytes(gzip.compress(TURTLE.encode()))
    (tmp_path / "docs.jsonl").write_text(f'{{"text": "t", "labels": ["{BREAD}"]}}\n')
    corpus = read(tmp_path / "docs.jsonl", label_set=path)
    assert corpus.labels.name(corpus.labels_of(0)[0]) == "Bread"


PREFIX = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.ttl", PREFIX + "<a> a skos:Concept ;;; x", "v.ttl:2: not valid turtle"),
        ("v.rdf", "<rdf>\n<open></rdf>", "v.rdf:2: not valid xml"),
        ("v.nt", "what is this", "not valid nt"),
        ("v.jsonld", "{", "not valid json-ld"),
        ("v.jsonld", '{"@context": "https://example.org/context.jsonld"}', "its JSON-LD context is on the network"),
        ("v.jsonld", '[{"@context": [{"@import": "https://example.org/c"}]}]', "its JSON-LD context is on the network"),
        ("v.ttl", "", "there is no skos:Concept in it"),
        (
            "v.ttl",
            PREFIX + "<a:a> a skos:Concept; <http://www.w3.org/2002/07/owl#deprecated> true .",
            "all its concepts",
        ),
        (
            "v.ttl",
            PREFIX + "<a:a> a skos:Concept; skos:broader <a:b> . <a:b> a skos:Concept; skos:broader <a:a> .",
            "the label hierarchy has a cycle: a:a > a:b > a:a",
        ),
    ],
)
def test_bad_vocabularies(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadInput) as caught:
        skos.read_labels(tmp_path / name)
    assert message in str(caught.value)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_unknown_suffix(tmp_path: Path) -> None:
    (tmp_path / "v.owl").write_text("")
    with pytest.raises(BadInput, match=r"which RDF syntax this is; name it with one of the suffixes .rdf"):
        skos.read_labels(tmp_path / "v.owl")


def test_without_rdflib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rdflib", "rdflib.namespace"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"SKOS vocabularies needs an optional dependency.*xmtc\[skos\]"):
        skos.read_labels(tmp_path / "v.ttl")
