"""With NUMBA_DISABLE_JIT=1, as under a debugger, kernels do the same in Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent.parent / "support"
PROGRAM = """
import json, sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", ".*were in training.*")
from contract_corpus import QUICK, small_corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.registry import make
corpus = small_corpus(20)
answers = {}
for name in sys.argv[1:]:
    model = make(name, **QUICK.get(name, {})).fit(corpus)
    metrics = evaluate(model, corpus).values
    answers[name] = [model.predict(corpus, k=3).ids.tolist(), {key: round(value, 3) for key, value in metrics.items()}]
print(json.dumps(answers))
"""


def answers(**environment: str) -> dict[str, object]:
    methods = ["knn", "rocchio", "parabel", "bonsai", "dismec", "fasttext", "extremetext"]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *methods], capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path]), **environment},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    found: dict[str, object] = json.loads(run.stdout)
    return found


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing to compare with")
def test_the_same_labels_without_the_compiler() -> None:
    assert answers(NUMBA_DISABLE_JIT="1") == answers()
