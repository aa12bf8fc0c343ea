"""The work of `xmtc warm`, in a process whose NUMBA_CACHE_DIR is set: `python -m ... FOLDER METHOD|MODEL...`.

How a kernel is compiled depends on the types of its arguments. The surest list of them is to use the methods: each is
trained on a few documents of the demo corpus, as texts and as features, saved, loaded and asked. A model folder is only
loaded and asked.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.models.base import Model

UNWRITTEN, REFUSED = 3, 4  # exit codes: the cache cannot be written; a model folder cannot be used
TRAINED_ON, ASKED = 120, 40  # documents
#: Small trees, so that few labels need clustering too; and quick blends.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "parabel": {"trees": 1, "max_leaf": 8},
    "bonsai": {"trees": 1, "max_leaf": 8, "arity": 4},
    "fastxml": {"trees": 2},
    "pfastrexml": {"trees": 2},
    "craftml": {"trees": 2},
    "blend": {"members": ["knn", "rocchio"]},
    "auto": {"methods": ["knn", "rocchio"], "budget": "2s"},
    "fasttext": {"dimensions": 8, "epochs": 1, "buckets": 1000},
    "extremetext": {"dimensions": 8, "epochs": 1, "max_leaf": 8},
}
#: Further settings that use other kernels or other versions of them.
VARIANTS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "fasttext": ({"loss": "softmax"}, {"loss": "ns"}, {"char_ngrams": [3, 4], "word_ngrams": 2}),
    # The last has so few words that a label with one document is trained on active documents, see `main`.
    "dismec": (
        {"loss": "logistic"},
        {"weights": "float16"},
        {"tfidf": {"max_terms": 1, "max_df": 0.3, "min_chars": 1}},
    ),
    "parabel": ({"loss": "logistic"}, {"weights": "float16"}, {"negatives": "matcher"}, {"tree": "given"}),
}
LETTERS: Mapping[str, Any] = {"tfidf": {"letters": [3, 5], "min_chars": 1}}
PAIRS: Mapping[str, Any] = {"tfidf": {"ngrams": [1, 2], "min_chars": 1}}


@cache
def documents(texts: bool) -> tuple[Corpus, Corpus]:
    """(to train on, to ask for): some of the demo corpus, as texts or as vectors."""
    from xmtc.corpus.io import read
    from xmtc.data import demo_folder
    from xmtc.text.document_features import DocumentVectors
    from xmtc.text.tfidf import TfIdfSettings

    if texts:
        return read(demo_folder())[:TRAINED_ON], read(demo_folder(), part="test")[:ASKED]
    train, test = documents(True)
    vectors = DocumentVectors(TfIdfSettings())
    found = vectors.fit_transform(train)
    return replace(train, texts=None, features=found), replace(test, texts=None, features=vectors.transform(test))


def cases(methods: list[str]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """(method, settings, whether with texts)."""
    from xmtc.models.registry import model_class

    for name in methods:
        kind = model_class(name)
        base = SETTINGS.get(name, {})
        if "text" in kind.capabilities.input:
            yield name, base, True
            for variant in VARIANTS.get(name, ()):
                yield name, {**base, **variant}, True
            if "tfidf" in kind.Config.model_fields:
                yield name, {**base, **LETTERS}, True
                yield name, {**base, **PAIRS}, True
        if "features" in kind.capabilities.input:
            yield name, base, False


def use(model: Model, train: Corpus, test: Corpus, folder: Path) -> None:
    """Everything that can be done with a model."""
    from xmtc.evaluation.evaluate import evaluate
    from xmtc.models.registry import load

    model.fit(train, test)
    model.save(folder)
    for each in (model, load(folder)):
        ask(each, test)
        evaluate(each, test, threshold=0.3)
    model.calibrate(test).tune(test)
    if model.capabilities.partial_fit:
        model.partial_fit(test).predict(test)


def ask(model: Model, test: Corpus) -> None:
    """Everything that a model can be asked: for many documents, for one, for a label's reasons."""
    model.predict(test, k=10)
    model.predict(test[:1], k=5)
    if test.texts is not None:
        model.predict(list(test.texts)[:2])
        model.predict(list(test.texts)[:1], k=100).threshold(0.3)
        if model.capabilities.explain:
            assert model.labels_ is not None
            model.explain(test.texts[0], model.labels_.key(0))


def ask_folder(path: str) -> str:
    """Load a model and ask it; the reason if that cannot be done, such as a missing extra."""
    from xmtc.errors import MissingExtra, XmtcError
    from xmtc.models.registry import load

    test = documents(texts=True)[1]
    try:
        model = load(path)
    except XmtcError as error:
        return str(error) if isinstance(error, MissingExtra) or path in str(error) else f"{path}: {error}"
    try:
        model.predict(test[:1])
    except XmtcError:
        return f"{path}: this {model.name} model was not trained on texts; name its method in place of the folder"
    ask(model, test)
    return ""


def main() -> int:
    """Compile, with a line for each method; prints how many were compiled, how many were found, and the folders."""
    from xmtc import kernels
    from xmtc.models import dismec
    from xmtc.models.registry import CATALOGUE, make

    folder, named = Path(sys.argv[1]), sys.argv[2:]
    dismec.LEAST_WORK = 0  # so that few documents take the kernel for many, too
    warnings.simplefilter("ignore")
    todo = list(cases([name for name in named if name in CATALOGUE]))
    with kernels.warming() as warmth:
        for at, (name, settings, with_texts) in enumerate(todo):
            if not at or todo[at - 1][0] != name:
                done = f"{at} of {len(todo)} done, {warmth.compiled} compiled, {warmth.found} found"
                print(f"warm: {name} ... ({done})", file=sys.stderr, flush=True)
            with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):  # what a training says is no news here
                use(make(name, **settings), *documents(with_texts), folder / "model")
        for path in (name for name in named if name not in CATALOGUE):
            print(f"warm: {path} ... ({warmth.compiled} compiled, {warmth.found} found)", file=sys.stderr, flush=True)
            if refusal := ask_folder(path):
                print(refusal)
                return REFUSED
    if warmth.unwritten:
        print(warmth.unwritten)
        return UNWRITTEN
    print("\n".join([str(warmth.compiled), str(warmth.found), *kernels.cache_folders()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
