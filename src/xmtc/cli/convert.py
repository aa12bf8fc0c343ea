"""`xmtc convert`: from any format into any other, splitting into train and test, and samples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from xmtc.cli.output import printable, share_or_number
from xmtc.cli.read_options import Part, Reading, with_reading

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.corpus.deduplication import Method
    from xmtc.corpus.splits import SplitMethod


@with_reading
def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="Corpus: file, folder or -.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="File in any format, or a folder.")],
    to: Annotated[str | None, typer.Option("--to", help="Format to write, if the name does not tell.")] = None,
    part: Annotated[str, typer.Option("--part", help="Of a folder: train or test.")] = "train",
    test: Annotated[str | None, typer.Option("--test", help="Split off this share or number; OUT is a folder.")] = None,
    split: Annotated[str, typer.Option("--split", help="random, stratified, blocks, or key:FIELD.")] = "random",
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", min=1, help="Keep this many documents, drawn at random; a folder's dev and test stay."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the split and of the sample.")] = 0,
    tfidf: Annotated[bool, typer.Option("--tfidf", help="Turn texts into tf-idf features.")] = False,
    dedup: Annotated[
        str | None, typer.Option("--dedup", help="Keep the first of documents with the same text: exact or near.")
    ] = None,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="The documents need not have labels.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that exist; never those that are read.")
    ] = False,
    reading: Reading = Reading(),
) -> None:
    """Convert a corpus, split it, or draw a sample of it.

    A folder gets files for train and test.

    Example: xmtc convert docs.csv corpus/ --test 0.1 --split stratified
    """
    from xmtc.corpus import folder
    from xmtc.corpus.io import write
    from xmtc.corpus.overwriting import becomes_folder, check_overwriting, files_read, files_written
    from xmtc.errors import ConfigError

    if part not in ("train", "test"):
        raise ConfigError(f"--part {part}: train or test was expected")
    method, _, key = split.partition(":")
    if method not in ("random", "stratified", "blocks", "key"):
        raise ConfigError(f"--split {split}: random, stratified, blocks or key:FIELD was expected")
    if dedup not in (None, "exact", "near"):
        raise ConfigError(f"--dedup {dedup}: exact or near was expected")
    if test is not None and (to is not None or target == "-"):
        raise ConfigError("--test writes a folder of JSON lines; name a folder as OUT, and leave out --to")
    sampled_folder = sample is not None and part == "train" and test is None and becomes_folder(target, to)
    others = folder.other_parts(source) if sampled_folder else []
    if others and tfidf:
        raise ConfigError("--sample keeps a folder's other parts as texts; leave out --tfidf, or write to a file")
    parts = ["train", "test"] if test is not None else ["train", *others]
    written = folder.files_written(target, parts) if test is not None or others else files_written(target, to)
    check_overwriting(source, target, written, files_read(source, reading.label_set), force=force)
    keep = (key,) if key and key != "id" else ()
    corpus = reading.read_labelled(source, cast("Part", part), unlabelled=unlabelled, keep=keep)
    if dedup is not None:
        corpus = without_duplicates(corpus, cast("Method", dedup))
        report_leakage(corpus, source, part, reading, cast("Method", dedup))
    if sample is not None:
        corpus = sampled(corpus, sample, seed)
    if tfidf:
        corpus = with_tfidf(corpus)
    if others:
        kept = {name: reading.read(source, cast("Part", name), unlabelled=unlabelled) for name in others}
        folder.write({"train": corpus, **kept}, target)
        sizes = ", ".join(f"{len(documents):,} in {name}" for name, documents in kept.items())
        print(f"{target}: {len(corpus):,} documents in train, {sizes}", file=sys.stderr)
        return
    if test is not None:
        size = share_or_number(test, "--test")
        rest, held_out = corpus.split(size, seed=seed, method=cast("SplitMethod", method), key=key or None)
        folder.write({"train": rest, "test": held_out}, target)
        print(f"{target}: {len(rest):,} documents in train, {len(held_out):,} in test", file=sys.stderr)
        return
    write(corpus, target, to)
    print(f"{target}: {len(corpus):,} documents, {len(corpus.labels):,} labels", file=sys.stderr)


def sampled(corpus: Corpus, size: int, seed: int) -> Corpus:
    """This many of the documents, drawn at random, in the order of the file."""
    from xmtc.errors import ConfigError

    if size > len(corpus):
        raise ConfigError(f"--sample {size}: {corpus.name} has {len(corpus):,} documents; give at most {len(corpus):,}")
    return corpus if size == len(corpus) else corpus.split(size, seed=seed)[1]


def without_duplicates(corpus: Corpus, method: Method) -> Corpus:
    """The corpus without duplicates; says what was dropped and what became of the labels."""
    from xmtc.corpus.deduplication import deduplicate

    result = deduplicate(corpus, method)
    what = "copies" if method == "exact" else "copies and near-duplicates"
    example = ""
    if len(result.dropped):
        one, other = corpus.id(int(result.dropped[0])), corpus.id(int(result.kept[0]))
        example = printable(f", such as {one}, which repeats {other}")
    print(f"{what} dropped: {len(result.dropped):,} of {len(corpus):,} documents{example}", file=sys.stderr)
    if result.gained_labels:
        print(f"kept documents that now have the labels of exact copies too: {result.gained_labels:,}", file=sys.stderr)
    if result.other_labels:
        also = f"dropped documents with a label that the one kept for them has not: {result.other_labels:,}"
        lost = ", ".join(result.lost_labels[:3]) + (", ..." if len(result.lost_labels) > 3 else "")
        none = f"; no document has these labels any more: {len(result.lost_labels):,} ({lost})" if lost else ""
        print(printable(also + none), file=sys.stderr)
    return result.corpus


def report_leakage(corpus: Corpus, source: str, part: str, reading: Reading, method: Method) -> None:
    """Say how many documents of a folder's other part repeat one of these; they are left where they are."""
    from xmtc.corpus.deduplication import leaked
    from xmtc.corpus.folder import has_part

    other: Part = "test" if part == "train" else "train"
    if source == "-" or not Path(source).is_dir() or not has_part(source, other):
        return
    found = len(leaked(reading.read(source, other, unlabelled=True), corpus, method))
    how = "repeat" if method == "exact" else "repeat or nearly repeat"
    print(f"documents of {source}'s {other} part that {how} one of these: {found:,}; they stay there", file=sys.stderr)


def with_tfidf(corpus: Corpus) -> Corpus:
    """The corpus with tf-idf features (unigrams) in place of its texts."""
    from dataclasses import replace

    from xmtc.errors import XmtcError
    from xmtc.text.tfidf import TfIdf

    if corpus.texts is None:
        raise XmtcError(f"{corpus.name} has no texts, so there is nothing to make tf-idf features of")
    return replace(corpus, features=TfIdf().fit_transform(corpus.texts), texts=None)
