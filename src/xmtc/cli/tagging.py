"""How `xmtc predict` tags documents: those of one source, or file after file, alone or on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from xmtc.cli.output import threshold_of
from xmtc.cli.read_options import Reading

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.corpus.labels import LabelSet
    from xmtc.predictions import Predictions

BATCH = 4096
LENGTH = 5  # of a list, unless --k says
Rows = Literal["label", "document"]


@dataclass(frozen=True)
class Tagging:
    """What the user said about it."""

    model: str
    device: str
    k: int | None
    threshold: str | None
    precision: float | None
    recall: float | None
    only: str | None
    exclude: str | None
    rows: Rows | None
    reading: Reading


class Tagger:
    """A loaded model that tags as the user said."""

    def __init__(self, how: Tagging) -> None:
        from xmtc.evaluation.evaluate import THRESHOLD_DEPTH
        from xmtc.models.registry import load

        self.model = load(how.model, device=how.device)
        labels = self.model.labels_
        assert labels is not None
        self.reading, self._rows = how.reading.for_model(self.model), how.rows
        self._allowed = {"only": label_list(how.only, labels), "exclude": label_list(how.exclude, labels)}
        self._at = threshold_of(self.model, how.threshold, how.precision, how.recall)
        # As long as those that `evaluate` measures. Cut afterwards: where each label has its own threshold, a lower
        # label may reach its and a higher not.
        self._length = how.k or LENGTH if self._at is None else max(how.k or 0, THRESHOLD_DEPTH)
        self._cut = how.k or self._length

    def answers(self, documents: Iterator[Corpus]) -> Iterator[tuple[Corpus, Predictions]]:
        """The documents in batches, with their labels."""
        for corpus in documents:
            for start in range(0, len(corpus), BATCH):
                part = corpus[start : start + BATCH]
                top = self.model.predict(part, self._length, **self._allowed)
                yield part, top if self._at is None else top.threshold(self._at).top(self._cut)

    def write(self, documents: Iterator[Corpus], out: str) -> int:
        """Write the answers to a file, which appears when it is complete; how many documents there were."""
        from xmtc.prediction_files.writing import writing_predictions

        count = 0
        with writing_predictions(out, self._rows) as writer:
            for part, top in self.answers(documents):
                writer.add([part.id(row) for row in range(len(part))], top)
                count += len(part)
                if out == "-":
                    sys.stdout.buffer.flush()  # whoever writes line by line waits for each answer
        if writer.formulas:
            print(
                f"{out}: {writer.formulas:,} cells begin like formulas (=, +, -, @): a spreadsheet may compute them; "
                "write .xlsx, where they stay text",
                file=sys.stderr,
            )
        return count


def label_list(path: str | None, known: LabelSet) -> list[str] | None:
    """The labels in a file, by key or name, one a line; blank lines do not count, an unknown label is an error."""
    from xmtc.corpus.sources import BadLine, Source, decode
    from xmtc.errors import BadInput, XmtcError

    if path is None:
        return None
    labels = []
    for number, line in enumerate(b"".join(Source(path).blocks()).splitlines(), 1):
        try:
            if label := decode(line).strip():
                known.find(label)
                labels.append(label)
        except BadLine as error:
            raise BadInput(path, number, error.problem, "convert it to UTF-8") from error
        except XmtcError as error:
            raise XmtcError(f"{path}:{number}: {error}") from error
    if not labels:
        raise BadInput(path, None, "there is no label in it", "give one label a line, by key or name")
    return labels


def answer_files(documents: str, out: str) -> dict[str, str]:
    """The files that match `documents`, each with the file of its answers: the star of `out` is the file's name.

    >>> import os, tempfile
    >>> os.chdir(tempfile.mkdtemp())
    >>> for name in ("a.jsonl.gz", "b.csv"):
    ...     Path(name).touch()
    >>> [Path(answers).name for answers in answer_files("*", "tags-*.parquet").values()]
    ['tags-a.parquet', 'tags-b.parquet']
    """
    import glob

    from xmtc.errors import BadInput, ConfigError

    if Path(out).name.count("*") != 1:
        raise ConfigError(f"--out {out}: for the documents of several files, a * stands for each name: 'tags/*.jsonl'")
    matches = map(Path, glob.glob(documents, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    files = sorted(str(file.absolute()) for file in matches if file.is_file())
    if not files:
        raise BadInput(documents, None, "no file matches", "check the folder and the pattern, and quote it")
    found: dict[str, str] = {}
    before: dict[str, str] = {}  # answers -> documents
    for file in files:
        name = Path(file.removesuffix(".gz")).stem
        answers = str(Path(out).absolute().with_name(Path(out).name.replace("*", name)))
        if answers in before:
            raise ConfigError(f"{before[answers]} and {file} would both be answered in {answers}; rename one")
        found[file] = answers
        before[answers] = file
    return found


def tag_files(how: Tagging, files: dict[str, str], shared: bool) -> None:
    """Tag file after file; one whose answers are there already is left. On a cluster if the work is `shared`.

    A file that cannot be read does not keep the others from being tagged: it is an error at the end.
    """
    from xmtc.errors import XmtcError
    from xmtc.prediction_files.writing import output_format
    from xmtc.progress import progress

    todo = [file for file, answers in files.items() if not Path(answers).exists()]
    if len(todo) < len(files):
        print(
            f"{len(files) - len(todo)} of {len(files)} files are answered already and left as they are", file=sys.stderr
        )
    failed: list[str] = []
    documents = 0
    for answers in files.values():
        Path(answers).parent.mkdir(parents=True, exist_ok=True)
        output_format(answers, how.rows)
    with progress("tagging files", len(todo)) as bar:
        for count, error in _tagged(how, {file: files[file] for file in todo}, shared) if todo else ():
            documents += count
            failed += [error] if error else []
            bar.advance()
    print(f"tagged {documents:,} documents of {len(todo) - len(failed)} files", file=sys.stderr)
    if failed:
        others = f" (and {len(failed) - 1} other files)" if len(failed) > 1 else ""
        raise XmtcError(f"{failed[0]}{others}")


def _tagged(how: Tagging, files: dict[str, str], shared: bool) -> Iterator[tuple[int, str]]:
    """(documents, error or "") of each file."""
    from xmtc.errors import XmtcError

    prepare = partial(_prepared, how, files)
    if shared:
        yield from _on_cluster(how, prepare, files)
        return
    tag = prepare()
    for file in files:
        try:
            yield tag(file), ""
        except (XmtcError, OSError) as error:
            yield 0, str(error)


def _on_cluster(
    how: Tagging, prepare: Callable[[], Callable[[str], int]], files: dict[str, str]
) -> Iterator[tuple[int, str]]:
    from xmtc.cluster.file_actors import each_file
    from xmtc.cluster.nodes import alive, check_shared

    folders = dict.fromkeys(str(Path(path).parent) for path in (*files, *files.values()))
    check_shared(alive(), [how.model, *folders, *(path for path in (how.only, how.exclude) if path is not None)])
    for done in each_file(prepare, list(files), memory_of(how.model)):
        yield done.result, done.error


def memory_of(model: str) -> int:
    """Bytes that a process with this model takes, about: its files are packed, and a batch needs room."""
    return 3 * sum(file.stat().st_size for file in Path(model).iterdir()) + (256 << 20)


def _prepared(how: Tagging, files: dict[str, str]) -> Callable[[str], int]:
    tagger = Tagger(how)
    return lambda file: tagger.write(tagger.reading.read_to_tag(file), files[file])
