"""`xmtc train`: learn from a corpus and write a model folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from xmtc.cli.cluster import Cluster, on_cluster
from xmtc.cli.completion import model_names, recipe_names
from xmtc.cli.read_options import Reading, with_reading
from xmtc.cli.resume import Found, check_resumable, checkpoint_folder, facts_of
from xmtc.cli.stopping import Resumable
from xmtc.folder_lock import folder_lock
from xmtc.recipes import put, read_recipe

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus, WeightKind
    from xmtc.models.base import Model


@with_reading
def train(
    corpus: Annotated[str, typer.Argument(help="File, folder with train.*, or - for standard input.")],
    out: Annotated[str, typer.Option("--out", help="Folder to write the model to.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="Method; `xmtc models` lists them. None: auto, for a short time.",
            autocompletion=model_names,
        ),
    ] = None,
    valid: Annotated[str | None, typer.Option(help="Validation file, or a share of the corpus such as 0.1.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Hyper-parameter key=value; may be repeated.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="YAML file with `model` and `set`, or a name: knn/tibkat.",
            autocompletion=recipe_names,
        ),
    ] = None,
    budget: Annotated[str | None, typer.Option(help="How long training may take, such as 30m; for auto.")] = None,
    predict_ms: Annotated[
        float | None, typer.Option(help="Milliseconds that the model may take for a document; for auto.")
    ] = None,
    model_mb: Annotated[float | None, typer.Option(help="Megabytes that its folder may take; for auto.")] = None,
    weight_field: Annotated[
        str | None, typer.Option("--weight-field", help="Field of each document's weight in training, from 0.")
    ] = None,
    label_weights: Annotated[
        str | None,
        typer.Option("--label-weights", help="File of label, tab, weight: its documents count more or less."),
    ] = None,
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
    cluster: Cluster = None,
    reading: Reading = Reading(),
) -> None:
    """Train a model on a corpus.

    Example: xmtc train docs.jsonl.gz --model knn --out tagger --valid 0.1 --set neighbours=30
    """
    from xmtc.atomic_folder import check_target
    from xmtc.errors import ConfigError
    from xmtc.models.registry import DEFAULT, make
    from xmtc.models.training_facts import some

    if valid is None and (calibrate or tune):
        option = "--calibrate" if calibrate else "--tune"
        raise ConfigError(f"{option} needs documents that the model is not trained on; say --valid FILE or --valid 0.1")
    named, hyper_parameters = settings(model, set_ or [], recipe, seed)
    name = DEFAULT if named is None else named
    limits = {"budget": budget, "predict_ms": predict_ms, "model_mb": model_mb}
    hyper_parameters |= {key: value for key, value in limits.items() if value is not None}
    try:
        if device is not None:
            put_device(name, hyper_parameters, device)
        made = make(name, **hyper_parameters)
    except ConfigError as error:
        raise error if named is not None else ConfigError(f"no --model given, so {name} is taken: {error}") from error
    given: dict[WeightKind, str | None] = {"documents": weight_field, "labels": label_weights}
    made.check_weights([kind for kind, source in given.items() if source is not None])
    target = check_target(out)
    with folder_lock(target), on_cluster(cluster):
        documents = reading.read_weighted(corpus, weight_field, label_weights)
        sizes = f"{some(len(documents), 'document')}, {some(len(documents.labels), 'label')}"
        print(f"{corpus}: {sizes}", file=sys.stderr)
        if named is None:
            made = with_budget(name, hyper_parameters, len(documents))
        held_out = None
        if valid is not None:
            documents, held_out = reading.hold_out(documents, valid, "--valid", made.config.seed)
        if resume and check_resumable(out, target, facts_of(made, documents, held_out, calibrate, tune)):
            print(f"{out}: this model is finished already, nothing to do", file=sys.stderr)
        else:
            made.reading_ = reading.remembered()
            prepare(made, out, target, resume)
            try:
                fit_and_save(made, out, target, documents, held_out, calibrate=calibrate, tune=tune, log=log)
            except KeyboardInterrupt:
                if checkpoint_folder(target).exists():
                    raise Resumable from None
                raise
    print(out)


def prepare(made: Model, out: str, target: Path, resume: bool) -> None:
    """Say what of an earlier training is replaced, and let a method that improves step by step save its steps."""
    from xmtc.errors import BadModelFolder

    pieces = checkpoint_folder(target)
    try:
        replaces = Found(target).finished
    except BadModelFolder:  # of a newer version, or damaged
        replaces = True
    if replaces:
        print(f"{out}: there is a model, which is replaced when the new one is finished", file=sys.stderr)
    else:
        made.on_better = lambda: made.save(out)  # so there is a model from the first minute on
    if not resume and pieces.exists():
        print(f"{out}: checkpoints of an earlier training are removed, since --resume was not given", file=sys.stderr)
        shutil.rmtree(pieces, ignore_errors=True)


def fit_and_save(
    made: Model,
    out: str,
    target: Path,
    documents: Corpus,
    held_out: Corpus | None,
    *,
    calibrate: Literal["isotonic", "platt"] | None,
    tune: bool,
    log: str | None,
) -> None:
    """Train, evaluate on the validation documents, and write the model folder."""
    pieces = checkpoint_folder(target)
    made.fit(documents, held_out, pieces, log)
    about: dict[str, Any] = {}
    if held_out is not None:
        from xmtc.evaluation.evaluate import evaluate

        if calibrate:
            made.calibrate(held_out, calibrate)
        if tune:
            made.tune(held_out)
        else:
            made.measure(held_out)  # so that a threshold can be chosen by the precision or recall it reaches
        evaluation = evaluate(made, held_out, threshold=made.thresholds_)
        print(f"on {len(held_out):,} validation documents:\n{evaluation}", file=sys.stderr)
        about["metrics"] = {"validation": evaluation.values}
    made.save(out, about)
    shutil.rmtree(pieces, ignore_errors=True)
    print(f"{made.name} trained in {made.training_['seconds']:.1f} s, saved to {out}", file=sys.stderr)


def with_budget(name: str, hyper_parameters: dict[str, Any], documents: int) -> Model:
    """The default model, with a budget that suits the corpus unless one was given; says what it is."""
    from xmtc.models.registry import default_budget, make

    settings = {"budget": default_budget(documents), **hyper_parameters}
    print(
        f"no --model given: {name} takes up to {settings['budget']}; change that with --budget 1h, or name a method "
        "with --model (`xmtc models` lists them)",
        file=sys.stderr,
    )
    return make(name, **settings)


def settings(
    model: str | None, pairs: list[str], recipe: str | None, seed: int | None
) -> tuple[str | None, dict[str, Any]]:
    """Model name, if any is given, and hyper-parameters: the recipe's, then what --set and --seed change."""
    name = model
    hyper_parameters: dict[str, Any] = {}
    if recipe is not None:
        recipe_model, hyper_parameters = read_recipe(recipe)
        name = recipe_model if model is None else model
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
