"""The small corpus that the contract suite trains on, and settings that make slow methods quick."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet

#: Of the three that emit label sequences.
SEQUENCES: dict[str, object] = {
    "hidden": 16,
    "label_dimensions": 16,
    "dropout": 0.1,
    "words": {"vectors": "random", "dimensions": 16, "max_tokens": 100, "dropout": 0.0},
    "training": {"epochs": 12, "batch_size": 10, "learning_rate": 0.01, "evaluate_every": 12, "patience": 5},
}
#: Hyper-parameters that make a method quick on a small corpus, for those whose defaults are for large ones.
QUICK: dict[str, dict[str, object]] = {
    "parabel": {"trees": 1},
    "bonsai": {"trees": 1},
    "sleec": {"learners": 2},
    "annexml": {"learners": 2},
    "slice": {"dimensions": 10},
    "fastxml": {"trees": 8, "cost": 4.0},
    "pfastrexml": {"trees": 8, "cost": 4.0},
    "craftml": {"trees": 8},
    "attentionxml": {
        "hidden": 16,
        "layers": [16],
        "dropout": 0.1,
        "words": {"vectors": "random", "dimensions": 16, "max_tokens": 100, "dropout": 0.0},
        "training": {"epochs": 12, "batch_size": 10, "learning_rate": 0.02, "evaluate_every": 11, "swa_start_epoch": 8},
    },
    "xml_cnn": {
        "widths": [2, 3],
        "filters": 16,
        "chunks": 2,
        "bottleneck": 16,
        "dropout": 0.1,
        "words": {"vectors": "random", "dimensions": 16, "max_tokens": 100},
        "training": {"epochs": 12, "batch_size": 10, "learning_rate": 0.01, "evaluate_every": 12, "patience": 5},
    },
    "bow_cnn": {
        "regions": [2, 5],
        "units": 16,
        "chunks": 2,
        "dropout": 0.1,
        "words": {"max_tokens": 100},
        "training": {"epochs": 12, "batch_size": 10, "learning_rate": 0.02, "evaluate_every": 12, "patience": 5},
    },
    "mlc2seq": SEQUENCES,
    "sgm": SEQUENCES,
    "su4mlc": SEQUENCES,
    "fasttext": {"dimensions": 16},
    "extremetext": {"dimensions": 16, "max_leaf": 1, "trees": 2},
    "mllm": {"languages": []},
    "blend": {"members": ["knn", {"model": "knn", "set": {"power": 1.0}}]},
    "auto": {"methods": ["knn", "rocchio"]},
    "c2ae": {
        "hidden": 16,
        "latent": 8,
        "dropout": 0.1,
        "training": {"epochs": 12, "batch_size": 10, "learning_rate": 0.01, "evaluate_every": 12, "patience": 5},
    },
    "rank_ae": {
        "channels": 16,
        "latent": 8,
        "hidden": 16,
        "dropout": 0.0,
        "training": {"epochs": 20, "batch_size": 10, "learning_rate": 0.02, "evaluate_every": 12},
    },
    "treaderxml": {
        "neighbours": 3,
        "description_words": 3,
        "heads": 2,
        "bottleneck": 16,
        "dropout": 0.1,
        "words": {"vectors": "random", "dimensions": 16, "max_tokens": 100, "dropout": 0.0},
        "training": {"epochs": 8, "batch_size": 10, "learning_rate": 0.02, "evaluate_every": 24},
    },
    "aplc_xlnet": {
        "encoder": {"max_tokens": 32, "pooling": "mean", "precision": "single"},  # bfloat16 rounds with the batch
        "dropout": 0.0,
        "training": {
            "epochs": 8,
            "batch_size": 10,
            "learning_rate": 0.02,
            "encoder_learning_rate": 0.002,
            "hidden_learning_rate": 0.02,
            "evaluate_every": 12,
        },
    },
    "x_transformer": {
        "encoder": {"max_tokens": 32, "pooling": "mean", "precision": "single"},  # bfloat16 rounds with the batch
        "max_leaf": 2,
        "dropout": 0.0,
        "training": {
            "epochs": 2,
            "batch_size": 10,
            "learning_rate": 0.02,
            "encoder_learning_rate": 0.002,
            "evaluate_every": 12,
        },
    },
    "lightxml": {
        "encoder": {"max_tokens": 32, "pooling": "mean", "precision": "single"},  # bfloat16 rounds with the batch
        "layers": 1,
        "dropout": 0.0,
        "tree": "clusters",
        "max_leaf": 2,
        "bottleneck": 16,
        "training": {
            "epochs": 8,
            "batch_size": 10,
            "learning_rate": 0.02,
            "encoder_learning_rate": 0.002,
            "evaluate_every": 12,
        },
    },
}

#: Documents that a method is trained on in the test with many labels, 10 labels each, where 20,000 would take minutes.
FEWER_DOCUMENTS = {
    "dismec": 1_000,
    "slice": 300,
    "sleec": 300,
    "annexml": 300,
    "fastxml": 2_000,
    "pfastrexml": 2_000,
    "craftml": 2_000,
    "proxml": 1_000,
    "ppd_sparse": 1_000,
    "pd_sparse": 1_000,
    "attentionxml": 100,
    "xml_cnn": 300,
    "bow_cnn": 300,
    "mlc2seq": 300,
    "sgm": 300,
    "su4mlc": 300,
    "fasttext": 300,
    "extremetext": 1_000,
    "c2ae": 300,
    "rank_ae": 1_000,
    "treaderxml": 300,
    "aplc_xlnet": 300,
    "x_transformer": 300,
    "lightxml": 300,
}


def in_short(name: str) -> dict[str, object]:
    """The quick settings of a method, with one epoch: for tests in which it does not matter how much was learned."""
    settings = dict(QUICK.get(name, {}))
    training = settings.get("training")
    if isinstance(training, dict):
        settings["training"] = {
            **training,
            "epochs": 1,
            **({"swa_start_epoch": 0} if "swa_start_epoch" in training else {}),
        }
    return settings


TOPICS = {
    "sea": "ship sail wave harbour anchor tide captain deck",
    "kitchen": "bread oven flour butter knife salt pepper soup",
    "sky": "cloud wind rain storm sun rainbow thunder snow",
    "城市": "東京 大阪 街 駅 電車",
    "море": "корабль волна парус капитан",
}


def give_encoder(settings: dict[str, object], make_folder: Callable[[str], Path]) -> None:
    """Name a tiny encoder in settings that are for a model with one; it is made when the first test asks for it."""
    encoder = settings.get("encoder")
    if isinstance(encoder, dict) and "name" not in encoder:
        from tiny_encoders import tiny_bert

        words = list(TOPICS.values())
        encoder["name"] = str(tiny_bert(make_folder("encoder"), words, num_hidden_layers=1, initializer_range=0.02))


def small_corpus(documents: int = 120, seed: int = 0, synonyms: bool = False) -> Corpus:
    """Documents about one or two topics, some of them without labels; one label has a single document."""
    rng = np.random.default_rng(seed)
    names = list(TOPICS)
    texts, tags = [], []
    for at in range(documents):
        chosen = rng.choice(names, size=rng.integers(1, 3), replace=False).tolist()
        words = [word for topic in chosen for word in rng.choice(TOPICS[topic].split(), 6)]
        texts.append(" ".join(words))
        tags.append(chosen if at % 10 else [])
    tags[1] = [*tags[1], "only once"]
    if not synonyms:
        return Corpus.of(texts, tags, name="small")
    keys = list(dict.fromkeys(tag for each in tags for tag in each))
    others = [TOPICS[key].split()[:3] if key in TOPICS else [] for key in keys]
    return Corpus.of(texts, tags, LabelSet.of(keys, alternatives=others), name="small")


def corpus_for(name: str, documents: int = 120, seed: int = 0) -> Corpus:
    """The small corpus for a method; one that finds labels by their names gets names that stand in the texts."""
    return small_corpus(documents, seed, synonyms=name == "mllm")
