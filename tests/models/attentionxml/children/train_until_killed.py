"""Train AttentionXML with checkpoints and kill this very process after so many steps: FOLDER SETTINGS STEPS."""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))

from contract_corpus import small_corpus

from xmtc.models.registry import make
from xmtc.nn.trainer import Trainer

folder, settings, steps = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
real_step = Trainer.step
taken = 0


def step(self: Trainer, batches: int) -> None:
    """A step, the last one being the process's last moment."""
    global taken
    taken += 1
    if taken > steps:
        os.kill(os.getpid(), signal.SIGKILL)
    real_step(self, batches)


Trainer.step = step  # type: ignore[method-assign]
make("attentionxml", **settings).fit(small_corpus(), checkpoints=folder)
