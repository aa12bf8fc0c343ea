"""Train APLC on a tiny encoder in one process and in two; how far their weights are apart goes to stdout."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))

import torch
from contract_corpus import small_corpus

from xmtc.models.aplc_xlnet.model import AplcXlNet
from xmtc.nn.serialization import weights_of

if __name__ == "__main__":
    torch.set_num_threads(1)
    settings, corpus = json.loads(sys.argv[1]), small_corpus(60)
    one, two = (
        weights_of(
            AplcXlNet(**{**settings, "training": {**settings["training"], "devices": count}}).fit(corpus).network_
        )
        for count in (1, 2)
    )
    print(
        json.dumps(
            {
                name: [float(abs(two[name] - weight).max(initial=0)), float(abs(weight).max(initial=0))]
                for name, weight in one.items()
            }
        )
    )
