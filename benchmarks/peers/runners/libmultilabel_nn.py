"""LibMultiLabel's AttentionXML, driven as its own `torch_trainer.py` does it.

    python -m benchmarks.peers.runners.libmultilabel_nn FOLDER OUT

FOLDER has `job.json`, `train.txt`, `test.txt` and `vectors.txt` (see `benchmarks/peers/attentionxml.py`); answers go to
OUT/answers.npz, and the costs are printed as one JSON object, the last line of standard output.

What is not in `job.json` is as in its example for EUR-Lex: Adam with rate 0.001, dropout of 0.2 for words and 0.5 after
the LSTM, word vectors that are trained.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
from libmultilabel.common_utils import AttributeDict  # type: ignore[import-not-found]
from libmultilabel.nn import attentionxml, data_utils, nn_utils  # type: ignore[import-not-found]
from lightning import Trainer

from benchmarks.peers.runners.measured import THREADS, K, peak_bytes, save_answers, unzipped

LAST_EPOCH = "step"  # the "best" model is the one with the most steps
UNUSED = "L-1"


class OnlyPredicting(Trainer):
    """In place of the trainer that it makes to test a model.

    Its test reads the models, turns words into numbers, tags the documents, measures itself, which tags them once more,
    and tags them for the file of answers. Only what is needed for the answers is done and timed here.
    """

    started = 0.0

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings, enable_progress_bar=False)
        OnlyPredicting.started = time.perf_counter()

    def test(self, *args: Any, **settings: Any) -> Any:
        """No measuring."""


def config_of(job: dict[str, Any], clusters: int, out: Path) -> Any:
    return AttributeDict(
        # the tree: two levels, clusters and labels
        cluster_size=job["max_leaf"],
        beam_width=min(job["candidates"], clusters),
        # the network
        network_config={
            "rnn_dim": 2 * job["hidden"],  # both directions together
            "linear_size": job["layers"],
            "rnn_layers": 1,
            "embed_dropout": 0.2,
            "post_encoder_dropout": 0.5,
            "freeze_embed_training": False,
        },
        max_seq_length=job["max_tokens"],
        # the training
        epochs=job["epochs"],
        batch_size=job["batch"],
        shuffle=True,
        optimizer="adam",
        learning_rate=1e-3,
        momentum=0.9,  # for SGD only
        weight_decay=0,
        lr_scheduler=None,
        scheduler_config=None,
        loss_function="binary_cross_entropy_with_logits",
        multiclass=False,
        # every epoch is done, the last one counts, and validation documents are not looked at
        early_stopping_metric=LAST_EPOCH,
        val_metric=LAST_EPOCH,
        patience=job["epochs"],
        monitor_metrics=[],
        metric_threshold=0.5,
        limit_train_batches=1.0,
        limit_val_batches=0,
        limit_test_batches=1.0,
        # the machine and the files
        cpu=True,
        data_workers=0,  # they would be more threads than two
        eval_batch_size=job["batch"],
        save_k_predictions=K,
        silent=True,
        checkpoint_dir=str(out / "checkpoints"),
        log_path=str(out / "log.json"),
        predict_out_path=str(out / "answers.txt"),
    )


def measure(job: dict[str, Any], train: Any, test: Any, words: Any, vectors: torch.Tensor, out: Path) -> dict[str, Any]:
    classes = data_utils.load_or_build_label({"train": train})
    clusters = 2 ** math.ceil(math.log2(len(classes) / job["max_leaf"]))
    if len(classes) % clusters == 0:  # then all clusters have one size, which it does not survive
        classes.append(UNUSED)
    nn_utils.set_seed(0)
    model = attentionxml.PLTTrainer(
        config_of(job, clusters, out),
        classes=classes,
        embed_vecs=vectors.clone(),  # it trains them in place
        word_dict=words,
    )
    start = time.perf_counter()
    model.fit({"train": train, "val": train[:1]})  # one has to be there
    trained = time.perf_counter() - start
    model.test(test)
    return {"train s": trained, "predict s": time.perf_counter() - OnlyPredicting.started}


def answers_of(file: Path) -> tuple[Any, Any]:
    """(ids, scores) from lines such as "L17:-0.3 L5:-2.1", which are logits."""
    pairs = [[pair[1:].split(":") for pair in line.split()] for line in file.read_text().splitlines()]
    return unzipped([[(int(label), float(score)) for label, score in line] for line in pairs])


def main() -> None:
    torch.set_num_threads(THREADS)
    attentionxml.Trainer = OnlyPredicting
    folder, out = map(Path, sys.argv[1:])
    job = json.loads((folder / "job.json").read_text())
    start = time.perf_counter()
    data = data_utils.load_datasets(str(folder / "train.txt"), str(folder / "test.txt"), val_size=0)
    words, vectors = data_utils.load_or_build_text_dict(
        data["train"], embed_file=str(folder / "vectors.txt"), silent=True
    )
    prepared = time.perf_counter() - start

    few = job["warm_up"]
    measure(job, data["train"][:few], data["test"][:few], words, vectors, out / "warm-up")
    costs = measure(job, data["train"], data["test"], words, vectors, out)
    save_answers(out / "answers.npz", *answers_of(out / "answers.txt"))
    print(f"\n{json.dumps({**costs, 'prepare s': prepared, 'peak MB': peak_bytes() / 1e6})}")


if __name__ == "__main__":
    main()
