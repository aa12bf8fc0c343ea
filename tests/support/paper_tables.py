"""The hyper-parameters that the papers print, typed in: tables, and what their sections on experiments say."""

from __future__ import annotations

from typing import Any, NamedTuple

NONE = None  # a dash in the table: the recipe does not set it


class Table(NamedTuple):
    """A table of hyper-parameters: the settings of each column, and a row for each data set."""

    where: str
    method: str
    columns: tuple[tuple[str, ...], ...]
    rows: dict[str, tuple[Any, ...]]


TABLES = [
    Table(
        "AttentionXML, Table 2: E, B, N, N_fc, H, M = K, C",
        "attentionxml",
        (
            ("training.epochs",),
            ("training.batch_size",),
            ("hidden",),
            ("layers",),
            ("levels",),
            ("max_leaf", "arity"),
            ("beam_width",),
        ),
        {
            "eurlex": (30, 40, 256, [256], NONE, NONE, NONE),
            "wiki10-31k": (30, 40, 256, [256], NONE, NONE, NONE),
            "amazoncat-13k": (10, 200, 512, [512, 256], NONE, NONE, NONE),
            "amazon-670k": (10, 200, 512, [512, 256], 3, 8, 160),
            "wiki-500k": (5, 200, 512, [512, 256], 1, 64, 15),
            "amazon-3m": (5, 200, 512, [512, 256], 3, 8, 160),
        },
    ),
    Table(
        "AttentionXML, section 3.3: vocabulary, truncation, dropout after the embedding and after the BiLSTM, Adam's "
        "learning rate, trees, whether word vectors are fine-tuned; section 2.4.1: dimensions of GloVe",
        "attentionxml",
        (
            ("words.max_words",),
            ("words.max_tokens",),
            ("words.dropout",),
            ("dropout",),
            ("training.learning_rate",),
            ("trees",),
            ("words.frozen",),
            ("words.dimensions",),
        ),
        {
            "eurlex": (500_000, 500, 0.2, 0.5, 1e-3, 3, True, 300),
            "wiki10-31k": (500_000, 500, 0.2, 0.5, 1e-3, 3, True, 300),
            "amazoncat-13k": (500_000, 500, 0.2, 0.5, 1e-3, 3, False, 300),
            "amazon-670k": (500_000, 500, 0.2, 0.5, 1e-3, 3, False, 300),
            "wiki-500k": (500_000, 500, 0.2, 0.5, 1e-3, 3, False, 300),
            "amazon-3m": (500_000, 500, 0.2, 0.5, 1e-3, 3, False, 300),
        },
    ),
    Table(
        "APLC-XLNet, Table 2: d_h, q, N_cls, P_num",
        "aplc_xlnet",
        (("hidden",), ("decay",), ("clusters",), ("partition",)),
        {
            "eurlex": (768, 2, 2, [0.5, 0.5]),
            "amazoncat-13k": (768, 2, 2, [0.5, 0.5]),
            "wiki10-31k": (768, 2, 2, [0.5, 0.5]),
            "wiki-500k": (768, 2, 3, [0.33, 0.33, 0.34]),
            "amazon-670k": (512, 2, 4, [0.25, 0.25, 0.25, 0.25]),
        },
    ),
    Table(
        "APLC-XLNet, Table 3: L_seq, eta_x, eta_h, eta_a, N_b, N_e; section 5: the warm-up step t_w",
        "aplc_xlnet",
        (
            ("encoder.max_tokens",),
            ("training.encoder_learning_rate",),
            ("training.hidden_learning_rate",),
            ("training.learning_rate",),
            ("training.batch_size",),
            ("training.epochs",),
            ("training.warmup_ratio",),
        ),
        {
            "eurlex": (512, 5e-5, 1e-4, 2e-3, 12, 8, 0),
            "amazoncat-13k": (192, 5e-5, 1e-4, 2e-3, 48, 8, 0),
            "wiki10-31k": (512, 1e-5, 1e-4, 1e-3, 12, 6, 0),
            "wiki-500k": (256, 5e-5, 1e-4, 2e-3, 64, 12, 0),
            "amazon-670k": (128, 5e-5, 1e-4, 2e-3, 32, 25, 0),
        },
    ),
    Table(
        "TReaderXML, section 4.1: words of a text, words of a description, dimensions, heads, learning rate",
        "treaderxml",
        (("words.max_tokens",), ("description_words",), ("words.dimensions",), ("heads",), ("training.learning_rate",)),
        {
            "amazoncat-13k": (300, 4, 300, 4, 1e-4),
            "eurlex": (500, 4, 300, 4, 1e-4),
            "rcv1": (250, 16, 400, 4, 1e-4),
        },
    ),
    Table(
        "Rank-AE, section 3.1: h (few labels, many labels), C, r, the share for validation, training on all at the end",
        "rank_ae",
        (("latent",), ("channels",), ("ratio",), ("training.valid_share",), ("refit",)),
        {
            "delicious": (200, 100, 4, 0.2, True),  # few or many: the paper does not say
            "mediamill": (100, 100, 4, 0.2, True),
            "imdb": (100, 100, 4, 0.2, True),
            "rcv1-2k": (200, 100, 4, 0.2, True),
            "eurlex": (200, 100, 4, 0.2, True),
            "wiki10-31k": (200, 100, 4, 0.2, True),
        },
    ),
    Table(
        "MLC2Seq, its experiments: encoder, word and label dimensions, fixed vectors, vocabulary, words and labels "
        "of a document, word dropout, learning rate, clipping, epochs, patience",
        "mlc2seq",
        (
            ("hidden",),
            ("words.dimensions",),
            ("label_dimensions",),
            ("words.frozen",),
            ("words.max_words",),
            ("words.max_tokens",),
            ("max_labels",),
            ("words.dropout",),
            ("training.learning_rate",),
            ("training.max_grad_norm",),
            ("training.epochs",),
            ("training.patience",),
        ),
        {"default": (512, 512, 256, True, 50_000, 300, 30, 0.2, 2e-4, 1.0, 20, 10)},
    ),
    Table(
        "SGM, section 3.3: word dimensions, encoder, dropout, Adam's learning rate, its decay, clipping, beam, words",
        "sgm",
        (
            ("words.dimensions",),
            ("hidden",),
            ("dropout",),
            ("training.learning_rate",),
            ("training.epoch_decay",),
            ("training.max_grad_norm",),
            ("beam_width",),
            ("words.max_tokens",),
        ),
        {"default": (512, 256, 0.5, 1e-3, 0.5, 10.0, 5, 500)},
    ),
    Table(
        "SU4MLC, its authors' code: dimensions of words and labels, batch, epochs, dropout, learning rate, its decay, "
        "clipping, beam, labels of a document",
        "su4mlc",
        (
            ("words.dimensions", "label_dimensions"),
            ("training.batch_size",),
            ("training.epochs",),
            ("dropout",),
            ("training.learning_rate",),
            ("training.epoch_decay",),
            ("training.max_grad_norm",),
            ("beam_width",),
            ("max_labels",),
        ),
        {"default": (512, 64, 20, 0.2, 3e-4, 0.5, 10.0, 5, 30)},
    ),
    Table(
        "FastXML, section 5, and its authors' program: trees, documents and labels of a leaf, C, bias",
        "fastxml",
        (("trees",), ("max_leaf",), ("leaf_labels",), ("cost",), ("bias",)),
        {"default": (50, 10, 100, 1.0, 1.0)},
    ),
    Table(
        "PfastreXML, section 6 and the authors' program: trees, documents of a leaf, alpha, gamma, A and B",
        "pfastrexml",
        (("trees",), ("max_leaf",), ("alpha",), ("gamma",), ("propensity_a",), ("propensity_b",)),
        {"default": (50, 10, 0.8, 30.0, 0.55, 1.5)},
    ),
    Table(
        "CRAFTML, section 5: trees, documents of a leaf, arity, rounds of k-means, documents of a node, dimensions",
        "craftml",
        (("trees",), ("max_leaf",), ("arity",), ("rounds",), ("sample",), ("buckets",)),
        {"default": (50, 10, 10, 2, 20_000, 10_000)},
    ),
    Table(
        "Johnson and Zhang's program for RCV1: region, neurons, pooling units, words and two reserved, batch, epochs",
        "bow_cnn",
        (("regions",), ("units",), ("chunks",), ("words.max_words",), ("training.batch_size",), ("training.epochs",)),
        {"rcv1": ([20], 1000, 10, 30_002, 100, 100)},
    ),
    Table(
        "extremeText, its authors' scripts: lr, epoch, dim, l2, weights of words, one tree; arity and maxLeaves",
        "extremetext",
        (
            ("learning_rate",),
            ("epochs",),
            ("dimensions",),
            ("weight_decay",),
            ("word_weights",),
            ("trees",),
            ("arity",),
            ("max_leaf",),
        ),
        {
            "eurlex": (0.5, 20, 250, 0.001, "tfidf", 1, 2, 100),
            "wiki10-31k": (0.5, 30, 500, 0.002, "tfidf", 1, 2, 100),
            "amazoncat-13k": (0.1, 20, 500, 0.001, "tfidf", 1, 2, 100),
            "delicious-200k": (0.1, 30, 500, 0.001, "equal", 1, 2, 100),
            "wikilshtc-325k": (0.5, 30, 500, 0.001, "tfidf", 1, 2, 100),
            "amazon-670k": (0.2, 30, 500, 0.003, "tfidf", 1, 2, 100),
            "wiki-500k": (0.5, 30, 500, 0.001, "tfidf", 1, 2, 100),
        },
    ),
]

#: Documents to learn from in the papers' data sets, for the settings that are a share of them.
DOCUMENTS = {
    "delicious": 12_920,
    "mediamill": 30_993,
    "imdb": 27_417,
    "rcv1-2k": 623_847,
    "eurlex": 15_539,
    "wiki10-31k": 14_146,
    "bibtex": 4_880,
    "debtags": 13_329,
    "eurlex15k": 15_000,
}
