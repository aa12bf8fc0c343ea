"""Train, evaluate, explain, predict and save on the pretended device: NAME SETTINGS STRICT FOLDER; answers as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from contract_corpus import small_corpus
from pretend_device import DEVICE, on_pretend_device, strictly

import xmtc
from xmtc.models.base import Model
from xmtc.nn.devices import device_of
from xmtc.nn.trainer import Trainer


def watched(self: Trainer, *batch: Any) -> Any:
    """Nothing may leave the device while a loss is computed."""
    loss = type(self.learner).loss

    def strict_loss(*part: Any) -> Any:
        with strictly():
            return loss(self.learner, *part)

    self.learner.loss = strict_loss  # type: ignore[assignment, method-assign]
    return backward(self, *batch)


def scores(model: Model) -> Any:
    """Of some documents, after a look where the networks are."""
    assert {device_of(network) for network in model._networks()} == {DEVICE}
    return model.predict(corpus, k=3).scores.tolist()


name, settings, strict, folder = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3] == "strict", Path(sys.argv[4])
corpus, backward = small_corpus(60), Trainer.backward
settings["training"]["device"] = "pretend"
with on_pretend_device():
    if strict:
        Trainer.backward = watched  # type: ignore[assignment, method-assign]
    model = xmtc.make(name, **settings).fit(corpus)
    found = scores(model)
    if model.capabilities.explain:
        model.explain("ship sail wave", "sea")
    model.save(folder)
    again = scores(xmtc.load(folder, device="pretend"))
print(json.dumps({"trained": found, "loaded": again}))
