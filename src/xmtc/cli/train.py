"""`xmtc train`: learn from a corpus and write a model folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from xmtc.cli.read_options import Reading, with_reading
from xmtc.recipes import put, read_recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xmtc.corpus.corpus import Corpus
    from xmtc.models.base import Model


@with_reading
def train(
    corpus: Annotated[str, typer.Argument(help="File, folder with train.*, or - for standard input.")],
    out: Annotated[str, typer.Option("--out", help="Folder to write the model to.")],
    model: Annotated[str | None, typer.Option("--model", help="Method; `xmtc models` lists them.")] = None,
    valid: Annotated[str | None, typer.Option(help="Validation file, or a share of the corpus such as 0.1.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Hyper-parameter key=value; may be repeated.")] = None,
    recipe: Annotated[str | None, typer.Option(help="YAML file with `model` and `set`, or a name: knn/tibkat.")] = None,
    budget: Annotated[str | None, typer.Option(help="How long training may take, such as 30m; for auto.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything random.")] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Where a network is trained: auto (a GPU if there is one), cpu, cuda, cuda:1, mps."),
    ] = None,
    calibrate: Annotated[
        Literal["isotonic", "platt"] | None,
        typer.Option(help="Make scores probabilities, by the validation documents."),
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Choose a threshold for each label, by the same.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with (or keep) what an earlier run left.")] = False,
    log: Annotated[
        str | None, typer.Option(help="Folder for the curves of neural methods, to be shown by TensorBoard.")
    ] = None,
    reading: Reading = Reading(),
) -> None:
    """Train a model on a corpus.

    Example: `xmtc train docs.jsonl.gz --model knn --out tagger --valid 0.1 --set neighbours=30`
    """
    from xmtc.atomic_folder import check_target
    from xmtc.errors import ConfigError
    from xmtc.models.registry import make

    if valid is None and (calibrate or tune):
        option = "--calibrate" if calibrate else "--tune"
        raise ConfigError(f"{option} needs documents that the model is not trained on; say --valid FILE or --valid 0.1")
    name, hyper_parameters = settings(model, set_ or [], recipe, seed)
    if budget is not None:
        hyper_parameters["budget"] = budget
    if device is not None:
        put_device(name, hyper_parameters, device)
    made = make(name, **hyper_parameters)
    check_target(out)
    documents = reading.read(corpus)
    print(f"{corpus}: {len(documents):,} documents, {len(documents.labels):,} labels", file=sys.stderr)
    held_out = None
    if valid is not None:
        documents, held_out = reading.hold_out(documents, valid, "--valid", made.config.seed)
    if resume and finished(out, made, expected(documents, held_out, calibrate, tune)):
        print(f"{out}: this model is finished already, nothing to do", file=sys.stderr)
        print(out)
        return
    pieces = Path(out).absolute().with_name(f".{Path(out).name}.checkpoints")
    if not resume:
        shutil.rmtree(pieces, ignore_errors=True)
    made.reading_ = reading.remembered()
    made.on_better = lambda: made.save(out)  # a method that improves step by step has a model from the first minute on
    made.fit(documents, held_out, pieces, log)
    about: dict[str, Any] = {}
    if held_out is not None:
        from xmtc.evaluation.evaluate import evaluate

        if calibrate:
            made.calibrate(held_out, calibrate)
        if tune:
            made.tune(held_out)
        evaluation = evaluate(made, held_out, threshold=made.thresholds_)
        print(f"on {len(held_out):,} validation documents:\n{evaluation}", file=sys.stderr)
        about["metrics"] = {"validation": evaluation.values}
    made.save(out, about)
    shutil.rmtree(pieces, ignore_errors=True)
    print(f"{name} trained in {made.training_['seconds']:.1f} s, saved to {out}", file=sys.stderr)
    print(out)


def settings(model: str | None, pairs: list[str], recipe: str | None, seed: int | None) -> tuple[str, dict[str, Any]]:
    """Model name and hyper-parameters: the recipe's, then what --set and --seed change."""
    from xmtc.errors import ConfigError

    name = model
    hyper_parameters: dict[str, Any] = {}
    if recipe is not None:
        recipe_model, hyper_parameters = read_recipe(recipe)
        name = model or recipe_model
    if name is None:
        raise ConfigError("no model named; say --model NAME (`xmtc models` lists them) or give a --recipe")
    for pair in pairs:
        put(hyper_parameters, pair)
    if seed is not None:
        hyper_parameters["seed"] = seed
    return name, hyper_parameters


def put_device(name: str, hyper_parameters: dict[str, Any], device: str) -> None:
    """Put the device into the settings of a method that trains a network; others take the CPU alone."""
    from xmtc.errors import ConfigError
    from xmtc.models.registry import model_class
    from xmtc.recipes import put_value

    if model_class(name).capabilities.gpu:
        put_value(hyper_parameters, "training.device", device)
    elif device not in ("auto", "cpu"):
        raise ConfigError(f"--device {device}: {name} computes on a CPU; leave --device out")


def expected(documents: Corpus, held_out: Corpus | None, calibrate: str | None, tune: bool) -> dict[str, Any]:
    """What the manifest of a model that was trained on these documents says about them."""
    from xmtc.models.calibration import fitted_on
    from xmtc.models.thresholds import SMOOTHING

    return {
        "fingerprint": documents.fingerprint(),
        "calibration": fitted_on(held_out, method=calibrate) if held_out is not None and calibrate else None,
        "thresholds": fitted_on(held_out, smoothing=SMOOTHING) if held_out is not None and tune else None,
    }


def finished(out: str, made: Model, training: Mapping[str, Any]) -> bool:
    """Whether the folder holds this model, trained with the same settings on the same documents."""
    from xmtc.atomic_folder import MANIFEST
    from xmtc.storage import opening

    if not (Path(out) / MANIFEST).exists():
        return False
    found = opening(out).manifest
    same_settings = found["kind"] == made.name and found["config"] == made.config.model_dump(mode="json")
    trained = found.get("training", {})
    return same_settings and all(trained.get(key) == value for key, value in training.items())
