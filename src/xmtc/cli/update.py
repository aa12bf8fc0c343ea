"""`xmtc update`: let a model learn from further documents, without training it again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xmtc.cli.read_options import Reading, with_reading
from xmtc.folder_lock import folder_lock

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.models.base import Model

WORTH_SAYING = 0.01  # share of documents that were in training before; a real corpus always has some duplicates


@with_reading
def update(
    model: Annotated[str, typer.Argument(help="Model folder.")],
    corpus: Annotated[str, typer.Argument(help="Further documents: file, folder with train.*, or -.")],
    out: Annotated[
        str | None, typer.Option("--out", help="Folder for the updated model, if not the model's own.")
    ] = None,
    weight_field: Annotated[
        str | None, typer.Option("--weight-field", help="Field of each document's weight in training, from 0.")
    ] = None,
    reading: Reading = Reading(),
) -> None:
    """Let a model learn from further documents.

    They may bring new words and new labels.

    Example: xmtc update tagger may.jsonl
    """
    from xmtc.atomic_folder import MANIFEST, check_target
    from xmtc.models.registry import load
    from xmtc.models.training_facts import FITTED_BEFORE, some

    check_can(model)
    target = check_target(model if out is None else out)
    with folder_lock(target):
        if (target / MANIFEST).is_file() and target != Path(model).resolve():
            print(f"{out}: there is a model, which is replaced when the update is finished", file=sys.stderr)
        loaded = load(model)
        loaded.check_weights(["documents"] if weight_field is not None else [])
        documents = reading.for_model(loaded).read_weighted(corpus, weight_field)
        known = len(loaded.labels_ or ())
        warn_of_known(loaded, documents)
        before = loaded.training_
        loaded.partial_fit(documents)
        loaded.save(target)
    with_what = f"{some(len(documents), 'document')}, {some(len(loaded.labels_ or ()) - known, 'new label')}"
    seconds = loaded.training_["seconds"] - before.get("seconds", 0)
    print(f"{loaded.name} updated in {seconds:.1f} s with {with_what}; saved to {out or model}", file=sys.stderr)
    if older := [what for what in FITTED_BEFORE if what in loaded.training_]:
        print(f"from before the update, and best made anew after many documents: {', '.join(older)}", file=sys.stderr)
    print(out or model)


def check_can(model: str) -> None:
    """A ConfigError that names the methods which can, if the method of a model folder cannot learn further."""
    from xmtc.errors import ConfigError
    from xmtc.models.registry import CATALOGUE, model_class
    from xmtc.storage import opening

    kind = opening(model).kind
    if kind in CATALOGUE and not model_class(kind).capabilities.partial_fit:
        can = [name for name in CATALOGUE if model_class(name).capabilities.partial_fit]
        raise ConfigError(
            f"{model}: {kind} cannot learn from further documents; train it again on all of them, "
            f"or take one of {', '.join(can)}"
        )


def warn_of_known(model: Model, documents: Corpus) -> None:
    """A line if some documents were in training before: they would count twice."""
    from xmtc.corpus.sketch import Sketch

    overlap = Sketch.from_hex(model.training_.get("sketch", "")).overlap(documents)
    if overlap.share >= WORTH_SAYING:
        print(
            f"warning: {documents.name}: {overlap} of these documents were in training already, and now count twice",
            file=sys.stderr,
        )
