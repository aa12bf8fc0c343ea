"""SKOS vocabularies (RDF/XML, Turtle, N-Triples, JSON-LD) as label sets; needs rdflib, and never the network.

A concept's key is its URI. Its name is the prefLabel in the chosen language, else in a variety of it (en-GB for en),
else without a language, else in English, else the first in the alphabet. Its alternatives are the altLabels and
hiddenLabels of the chosen language, its notations, and, where several languages are asked for (`de,en`), all labels of
the others. Its description is the definition or else the scopeNote, chosen as the name is. Its parents are what
`broader`, or `narrower` the other way round, says. Deprecated concepts are left out, and so are links to concepts that
the file does not have; both are counted on standard error, and so are names that are in another language.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from xml.sax import SAXParseException

from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import Source
from xmtc.errors import BadInput, MissingExtra, XmtcError

SYNTAX = {".rdf": "xml", ".xml": "xml", ".ttl": "turtle", ".nt": "nt", ".jsonld": "json-ld"}


def read_labels(path: str | Path, languages: Sequence[str] = ("en",)) -> LabelSet:
    """Read the concepts of a vocabulary, sorted by URI; names are in the first of the languages."""
    try:
        from rdflib.namespace import OWL, RDF, SKOS
    except ImportError as error:
        raise MissingExtra("SKOS vocabularies", "skos") from error

    graph = _graph(Source(path))
    concepts = sorted(set(graph.subjects(RDF.type, SKOS.Concept)), key=str)
    if not concepts:
        raise BadInput(path, None, "there is no skos:Concept in it", "give a SKOS vocabulary")
    kept = [c for c in concepts if str(graph.value(c, OWL.deprecated)).lower() not in ("true", "1")]
    if not kept:
        raise BadInput(path, None, "all its concepts are deprecated", "give a vocabulary in use")
    known = set(kept)
    links = set(graph.subject_objects(SKOS.broader))
    links |= {(c, above) for above, c in graph.subject_objects(SKOS.narrower)}
    parents: dict[Any, list[str]] = {concept: [] for concept in kept}
    for concept, above in sorted(links):
        if concept in known and above in known:
            parents[concept].append(str(above))
    if deprecated := len(concepts) - len(kept):
        print(f"{path}: {deprecated:,} deprecated concepts left out", file=sys.stderr)
    if outside := sum(not {*link} <= known for link in links):
        print(f"{path}: {outside:,} broader links to concepts that are not in it left out", file=sys.stderr)
    names = [_chosen(graph.objects(c, SKOS.prefLabel), languages) for c in kept]
    if foreign := sum(bool(_tag(name)) and not _is(_tag(name), languages[0]) for name in names):
        print(f"{path}: names that are not in the language {languages[0]!r}: {foreign:,}", file=sys.stderr)

    def synonyms(concept: Any) -> list[str]:
        labels = [graph.objects(concept, kind) for kind in (SKOS.prefLabel, SKOS.altLabel, SKOS.hiddenLabel)]
        notations = [" ".join(str(each).split()) for each in graph.objects(concept, SKOS.notation)]
        return [*_alternatives(chain(*labels), languages), *sorted(filter(None, notations))]

    try:
        return LabelSet.of(
            map(str, kept),
            names=list(map(str, names)),
            descriptions=[
                str(
                    _chosen(graph.objects(c, SKOS.definition), languages)
                    or _chosen(graph.objects(c, SKOS.scopeNote), languages)
                )
                for c in kept
            ],
            alternatives=[
                [other for other in dict.fromkeys(synonyms(c)) if other != " ".join(str(name).split())]
                for c, name in zip(kept, names, strict=True)
            ],
            parents=[parents[c] for c in kept],
        )
    except XmtcError as cycle:
        raise BadInput(path, None, str(cycle), "correct skos:broader along this path") from cycle


def _graph(source: Source) -> Any:
    from rdflib import Graph

    if source.suffix not in SYNTAX:
        remedy = f"name it with one of the suffixes {', '.join(SYNTAX)}"
        raise BadInput(source.path, None, "the suffix does not say which RDF syntax this is", remedy)
    syntax = SYNTAX[source.suffix]
    content = b"".join(source.blocks())
    graph = Graph()
    try:
        if syntax == "json-ld":
            _refuse_remote_context(source.path, json.loads(content))
        graph.parse(data=content, format=syntax, publicID=Path(source.path).absolute().as_uri())
    except XmtcError:
        raise
    except Exception as error:  # each of rdflib's parsers has errors of its own
        line = error.getLineNumber() if isinstance(error, SAXParseException) else getattr(error, "lines", -1) + 1
        first = str(error).strip().partition("\n")[0]
        raise BadInput(source.path, line or None, f"not valid {syntax}: {first}", "mend the file") from error
    return graph


def _refuse_remote_context(path: str, value: Any) -> None:
    """rdflib would fetch a context that is named by address, and nothing here may use the network."""
    if isinstance(value, list):
        for item in value:
            _refuse_remote_context(path, item)
    elif isinstance(value, dict):
        context = value.get("@context")
        for part in context if isinstance(context, list) else [context]:
            if isinstance(part, str) or (isinstance(part, dict) and "@import" in part):
                problem = f"its JSON-LD context is on the network ({part})"
                raise BadInput(path, None, problem, "put the context into the file, or convert it to Turtle")
        for item in value.values():
            _refuse_remote_context(path, item)


def _chosen(literals: Iterable[Any], languages: Sequence[str]) -> Any:
    """The text in the best language, as the module's docstring says; empty if there is none."""

    def rank(literal: Any) -> tuple[int, str]:
        tag = _tag(literal)
        asked = [match for each in languages for match in (tag == each, _is(tag, each))]
        return [*asked, tag == "", _is(tag, "en"), True].index(True), str(literal)

    return min(literals, key=rank, default="")


def _alternatives(literals: Iterable[Any], languages: Sequence[str]) -> list[str]:
    """All labels in these languages, those of the first language first."""
    each = list(literals)
    # Label sets separate alternatives by line ends, so there can be none inside one.
    return [
        label
        for language in languages
        for label in sorted(" ".join(str(literal).split()) for literal in each if _is(_tag(literal), language))
    ]


def _tag(literal: Any) -> str:
    return (getattr(literal, "language", None) or "").lower()


def _is(tag: str, language: str) -> bool:
    return tag == language or tag.startswith(f"{language}-")
