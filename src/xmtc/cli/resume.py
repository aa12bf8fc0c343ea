"""What `train --resume` finds: a finished model to keep, a run to go on with, or another run's, which is an error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.models.base import Model


def checkpoint_folder(target: Path) -> Path:
    """Where the finished pieces of a training are kept: beside the model."""
    return target.with_name(f".{target.name}.checkpoints")


def facts_of(made: Model, documents: Corpus, held_out: Corpus | None, method: str | None, tune: bool) -> dict[str, Any]:
    """What makes a training the one it is: model, settings, documents, weights, calibration, thresholds."""
    from xmtc.models.calibration import fitted_on
    from xmtc.models.thresholds import SMOOTHING

    return {
        "model": made.name,
        "settings": made.config.model_dump(mode="json"),
        "documents": documents.fingerprint(),
        "weights": documents.weights_fingerprint(),
        "validation": fitted_on(held_out) if held_out is not None else None,
        "calibration": fitted_on(held_out, method=method) if held_out is not None and method else None,
        "thresholds": fitted_on(held_out, smoothing=SMOOTHING) if held_out is not None and tune else None,
    }


class Found:
    """The model in a folder, as its manifest tells; nothing if there is none."""

    def __init__(self, target: Path) -> None:
        from xmtc.atomic_folder import MANIFEST
        from xmtc.storage import opening

        self.manifest = opening(target).manifest if (target / MANIFEST).exists() else None

    @property
    def finished(self) -> bool:
        """Whether there is a model of a training that came to its end; what `auto` saves on its way is none."""
        return self.manifest is not None and "fingerprint" in self.manifest.get("training", {})

    def differences(self, facts: dict[str, Any]) -> list[str]:
        """What is different in the training of the model that is there, in words."""
        from xmtc.checkpoints import differences

        assert self.manifest is not None
        trained = self.manifest.get("training", {})
        there: dict[str, Any] = {"model": self.manifest["kind"]}
        if there["model"] == facts["model"]:
            there["settings"] = self.manifest["config"]
        if "fingerprint" in trained:
            there["documents"] = trained["fingerprint"]
            there |= {key: trained.get(key) for key in ("weights", "validation", "calibration", "thresholds")}
            if trained.get("validation") is None and "validation" in self.manifest.get("metrics", {}):
                del there["validation"]  # an older version did not say which documents they were
        return differences(there, {key: facts[key] for key in there})


def check_resumable(out: str, target: Path, facts: dict[str, Any]) -> bool:
    """Whether the folder holds exactly this model, finished; an error if it holds the one of another training.

    Checkpoints beside it are a later training's, which then decides: `Checkpoints` compares them.
    """
    from xmtc.errors import ConfigError

    found = Found(target)
    if found.manifest is None:
        return False
    different = found.differences(facts)
    if not different:
        return found.finished
    if checkpoint_folder(target).exists():
        return False
    raise ConfigError(
        f"--resume: {out} holds another training's model, different: {', '.join(different)}; say the same to keep it, "
        "leave --resume out to train anew and replace it, or give another --out"
    )
