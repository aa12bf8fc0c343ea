"""`xmtc predict`: labels for new documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from xmtc.cli.output import Device, printable, threshold_of
from xmtc.cli.read_options import Reading, with_reading

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.predictions import Predictions

BATCH = 4096
LENGTH, TUNED_LENGTH = 5, 100  # of a list, unless --k says; tuned thresholds were chosen for long lists


@with_reading
def predict(
    model: Annotated[str, typer.Argument(help="Model folder.")],
    documents: Annotated[str, typer.Argument(help="File in any format, one text a line, or - for standard input.")],
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Labels for each document, at most; 5, or 100 if tuned.")
    ] = None,
    threshold: Annotated[str | None, typer.Option(help="Leave out labels that score less: 0.3, or tuned.")] = None,
    out: Annotated[str, typer.Option("--out", help="File to write, - for standard output.")] = "-",
    device: Device = "auto",
    table: Annotated[bool, typer.Option("--table", help="A table for people instead of JSON lines.")] = False,
    reading: Reading = Reading(),
) -> None:
    """Predict labels, as JSON lines `{"id", "labels": [{"label", "name", "score"}]}` or as a table.

    Example: `echo "a fast mail server" | xmtc predict tagger - --k 3 --table`
    """
    import orjson

    from xmtc.corpus.sources import check_output, replacing
    from xmtc.models.registry import load

    check_output(out)
    loaded = load(model, device=device)
    at = threshold_of(loaded, threshold)
    tuned = threshold == "tuned"
    k = k or (TUNED_LENGTH if tuned else LENGTH)
    corpus = reading.for_model(loaded).read(documents, "test", unlabelled=True)
    with replacing(out) as stream:
        for start in range(0, len(corpus), BATCH):
            part = corpus[start : start + BATCH]
            top = loaded.predict(part, k=max(k, TUNED_LENGTH) if tuned else k)
            if at is not None:
                # Cut afterwards: where each label has its own threshold, a lower label may reach its and a higher not.
                top = top.threshold(at).top(k)
            for row in range(len(part)):
                answer = record(part, top, row)
                stream.write(as_text(answer, part, row) if table else orjson.dumps(answer) + b"\n")


def record(corpus: Corpus, top: Predictions, row: int) -> dict[str, Any]:
    """The answer for one document as JSON data."""
    found = zip(top.ids[row].tolist(), top.scores[row].tolist(), strict=True)
    labels = [
        {"label": top.labels.key(label), "name": top.labels.name(label), "score": round(score, 6)}
        for label, score in found
        if label >= 0
    ]
    return {"id": corpus.id(row), "labels": labels}


def as_text(answer: dict[str, Any], corpus: Corpus, row: int) -> bytes:
    """The answer for one document as a few lines for people."""
    start = " ".join(corpus.texts[row][:400].split())[:80] if corpus.texts is not None else ""
    lines = [f"{answer['id']}  {start}".rstrip()]
    lines += [f"  {label['score']:6.3f}  {label['name']}" for label in answer["labels"]] or ["  no label"]
    return ("\n".join(map(printable, lines)) + "\n").encode()
