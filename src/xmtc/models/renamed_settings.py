"""Settings that had another name in an older version of xmtc: whoever still writes the old one is told the new one."""

from __future__ import annotations

#: Old path -> new path; one that holds for a single method begins with its name and a colon.
RENAMED = {
    "attentionxml: candidates": "beam_width",
    "attentionxml: match": "logsumexp_score",
    "beam": "beam_width",
    "rank_ae: candidates": "negative_samples",
    "training.accumulate": "training.gradient_accumulation",
    "training.average_from": "training.swa_start_epoch",
    "training.batch": "training.batch_size",
    "training.clip_norm": "training.max_grad_norm",
    "training.decay": "training.lr_decay",
    "training.decays": "training.max_lr_decays",
    "training.warm_up": "training.warmup_ratio",
    "words.warm_up": "words.pretraining_epochs",
}


def new_name(model: str, path: str) -> str | None:
    """What an unknown setting of a model is called now, if it was renamed.

    >>> new_name("attentionxml", "training.batch"), new_name("rank_ae", "candidates"), new_name("knn", "candidates")
    ('training.batch_size', 'negative_samples', None)
    """
    return RENAMED.get(f"{model}: {path}") or RENAMED.get(path)
