"""Train the toy in one process, in two, and in two from where a run in one was killed; the weights go to stdout."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import torch
from toy_learner import Killed, ToyLearner, short

from xmtc.checkpoints import Checkpoints
from xmtc.nn.trainer import train

DOCUMENTS = 13  # in batches of 4: the last one has fewer documents than there are processes


def trained(learner: ToyLearner, devices: int, checkpoints: Checkpoints) -> dict[str, list[object]]:
    settings = short(devices=devices, epochs=4, swa_start_epoch=1, evaluate_every=3)
    train(learner, settings, 0, checkpoints, "toy")
    return {name: weight.tolist() for name, weight in learner.weights().items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, nowhere = Path(sys.argv[1]), Checkpoints(None, {})
    result = {"one": trained(ToyLearner(DOCUMENTS), 1, nowhere)}
    result["two"] = trained(ToyLearner(DOCUMENTS), 2, Checkpoints(None, {}, folder / "logs"))
    # With what mixes documents and what is random. Without validation, so that the result is not what was best before
    # the run was killed.
    options: dict[str, Any] = {"gathering": True, "dropout": 0.3, "noise": 0.2, "valid": False}
    result["uninterrupted"] = trained(ToyLearner(DOCUMENTS, **options), 1, nowhere)
    kept = Checkpoints(folder / "pieces", {})
    with suppress(Killed):
        trained(ToyLearner(DOCUMENTS, **options, killed_at=5), 1, kept)  # in the second epoch
    result["resumed"] = trained(ToyLearner(DOCUMENTS, **options), 2, kept)
    # Evaluated at step 3 alone, the best weights.
    result["no number"] = trained(ToyLearner(DOCUMENTS, qualities=[0.5], nan_at=4), 2, nowhere)
    print(json.dumps(result))
