"""Golden hashes: what every method predicts and saves on the contract corpus, so that a refactoring can be checked.

    export PYTHONPATH=tests/support OMP_NUM_THREADS=1  # tests have a thread each
    python tests/contract/golden.py            # compare with golden.json; exits 1 if something differs
    python tests/contract/golden.py --write    # renew the entry of this machine

Moving and renaming code leaves all hashes as they are: the names of arrays and settings do not count, their contents
do. A commit that changes a method's behaviour renews its hash and says so. Floating-point results depend on processor
and libraries, so golden.json has one entry for each combination that somebody has recorded.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from contract_corpus import QUICK, give_encoder, small_corpus

from xmtc import storage
from xmtc.models.base import Model
from xmtc.models.registry import CATALOGUE, make

FILE = Path(__file__).with_name("golden.json")
LIBRARIES = ("numpy", "scipy", "numba", "torch", "transformers")
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")

#: Settings beside those of the contract suite that reach further parts of a method.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "attentionxml-tree": (
        "attentionxml",
        {"tree": "tree", "levels": 1, "arity": 2, "max_leaf": 2, "beam_width": 2, "trees": 2},
    ),
    "treaderxml-votes": (
        "treaderxml",
        {"votes": True, "names": True, "voters": 5, "search": {"vectors": "tfidf"}, "candidates": "both"},
    ),
    "aplc_xlnet-3": ("aplc_xlnet", {"clusters": 3}),
    "rank_ae-bce": ("rank_ae", {"loss": "bce", "attention": False}),
    "knn-mean": ("knn", {"search": {"vectors": "mean"}, "words": {"vectors": "random", "dimensions": 16}}),
}


def cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """Title -> (method, settings)."""
    everything: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in CATALOGUE} | VARIANTS
    return {title: (name, deepcopy(QUICK.get(name, {})) | more) for title, (name, more) in everything.items()}


def machine() -> str:
    """What floating-point results depend on."""
    try:
        lines = [line.partition(":") for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()]
        facts = {key.strip(): value.strip() for key, _, value in lines}
    except OSError:
        facts = {}
    known = set(facts.get("flags", "").split())
    # Loops are compiled for the very model: one with the same instructions may add up in another order.
    model = f"model={facts.get('cpu family', '')}.{facts.get('model', '')}"
    flags = [flag for flag in FLAGS if flag in known]
    return " ".join([model, *flags, *(f"{name}={version(name)}" for name in LIBRARIES)])


def hashes_of(model: Model, folder: Path) -> dict[str, str]:
    """Of a fitted model: a hash of its predictions, and one of the contents of its saved arrays."""
    top = model.predict(small_corpus(), k=4)
    predictions = hashlib.sha256(top.ids.tobytes() + top.scores.tobytes()).hexdigest()
    model.save(folder)
    contents = []
    for file in sorted(folder.rglob("*.safetensors")):
        for array in storage.read_arrays(file).values():
            content = np.ascontiguousarray(array)
            contents.append(hashlib.sha256(f"{content.dtype} {content.shape}".encode() + content.tobytes()).hexdigest())
    arrays = hashlib.sha256("".join(sorted(contents)).encode()).hexdigest()
    return {"predictions": predictions[:16], "arrays": arrays[:16]}


def computed(title: str, make_folder: Callable[[str], Path]) -> dict[str, str]:
    """The hashes of one case as the code is now."""
    name, settings = cases()[title]
    give_encoder(settings, make_folder)
    return hashes_of(make(name, **settings).fit(small_corpus()), make_folder("golden") / "model")


def main() -> int:
    """Compare or write."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    expected = known.get(machine(), {})
    found = {}
    for title in cases():
        with tempfile.TemporaryDirectory() as folder:
            found[title] = computed(title, lambda name, folder=folder: Path(tempfile.mkdtemp(name, dir=folder)))  # type: ignore[misc]
        print(f"{'same     ' if found[title] == expected.get(title) else 'DIFFERENT'} {title} {found[title]}")
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(known | {machine(): found}, indent=1) + "\n")
        return 0
    return int(found != expected)


if __name__ == "__main__":
    sys.exit(main())
