"""The runs of `xmtc compare` on one corpus: each in a folder and a process of its own, found again when it is done."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmtc.cli.compare_plans import Plan
from xmtc.cli.compare_worker import DISK_FULL, RESULT, SPEC, TOP, full_disk, parts
from xmtc.cli.output import write_json
from xmtc.cli.read_options import REMEMBERED, Reading

if TYPE_CHECKING:
    from xmtc.corpus.labels import LabelSet
    from xmtc.evaluation.comparison import Run
    from xmtc.evaluation.leaderboard import Leaderboard
    from xmtc.labelspace.propensity import Propensity
    from xmtc.predictions import Predictions

PATIENCE = 15  # seconds that a stopped run has to end by itself
SPENT = "the budget was spent"


class Work:
    """The runs of a comparison on one corpus, below a folder."""

    def __init__(
        self,
        folder: Path,
        corpus: str,
        test: str,
        reading: Reading,
        plans: Sequence[Plan],
        end: float | None = None,
        valid: str | None = None,
        cluster: str | None = None,
    ) -> None:
        """Read the corpus and what was given beside it, so that a mistake is found before the first training."""
        self.folder, self.corpus, self.plans, self.end = folder, corpus, plans, end
        self.cluster = cluster
        self.source = {"corpus": corpus, "test": test, "valid": valid, "reading": asdict(reading)}
        train, held_out, chosen_on, self.split = parts(corpus, test, valid, reading)
        self.labels: LabelSet = train.labels.with_counts(train.label_counts)
        self.truth = held_out.with_labels(self.labels)
        self.train_documents = len(train)
        self.valid_documents = 0 if chosen_on is None else len(chosen_on)
        self.prints = {"train": train.fingerprint(), "test": held_out.fingerprint()}
        if chosen_on is not None:
            self.prints["valid"] = chosen_on.fingerprint()
        self.files = {plan.path: self._read_file(plan) for plan in plans if plan.origin == "predictions"}
        self.remarks = {plan.path: self._remark(plan, reading) for plan in plans if plan.origin == "folder"}

    def about(self) -> str:
        """What is compared on, for whoever waits and for whoever reads the report."""
        counts = f"{self.train_documents:,} documents to train on, {len(self.truth):,} to test on"
        if self.valid_documents:
            counts += f", {self.valid_documents:,} to validate on (early stopping, thresholds)"
        return f"{counts}; {self.split}" if self.split else counts

    def board(self, seeds: int, propensity: Propensity) -> tuple[Leaderboard, bool]:
        """Do what is missing and compare; whether it was stopped by Ctrl-C is returned too."""
        from xmtc.evaluation.leaderboard import Leaderboard

        print(f"{self.corpus}: {self.about()}", file=sys.stderr)
        runs: list[Run] = []
        stopped = False
        # Of every model the first seed, then of every model the second: early results are of all models.
        todo = [(plan, seed) for seed in range(seeds) for plan in self.plans if seed in plan.seeds(seeds)]
        for at, (plan, seed) in enumerate(todo):
            try:
                runs.append(self.done(plan, seed, f"[{at + 1}/{len(todo)}]", stopped))
            except KeyboardInterrupt:
                stopped = True
                runs.append(self.found(plan, seed, "stopped", "Ctrl-C"))
        return Leaderboard.of(runs, self.truth, propensity), stopped

    def done(self, plan: Plan, seed: int, place: str, stopped: bool = False) -> Run:
        """The run as an earlier comparison left it, or done now."""
        from xmtc.evaluation.comparison import shown_cost

        fixed = plan.origin != "trained" or "seed" in plan.settings
        name = plan.system if fixed else f"{plan.system}, seed {seed}"
        run = self.found(plan, seed)
        if run.status == "finished":
            print(f"{place} {name}: {'read' if plan.origin == 'predictions' else 'done before'}", file=sys.stderr)
            return run
        if stopped or (self.end is not None and time.monotonic() > self.end):
            return self.found(plan, seed, "waiting", "stopped before its turn" if stopped else SPENT)
        print(f"{place} {name} ...", file=sys.stderr, flush=True)
        reason = self.start(plan, seed)
        run = self.found(plan, seed, "stopped" if reason == SPENT else "failed", reason)
        took = f", {shown_cost('training', run.costs['training'])}" if run.costs and plan.origin == "trained" else ""
        print(f"{place} {name}: {run.status}{f', {run.reason}' if run.reason else took}", file=sys.stderr, flush=True)
        return run

    def start(self, plan: Plan, seed: int) -> str:
        """Do a run in a process of its own; returns why it left no result, or ""."""
        import subprocess

        folder = self.place(plan, seed)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESULT).unlink(missing_ok=True)
        what = {"folder": plan.path} if plan.origin == "folder" else {}
        spec = {**self.source, "model": plan.model, "settings": self.settings(plan, seed), "cluster": self.cluster}
        write_json(str(folder / SPEC), {**spec, **what, "fingerprints": self.prints})
        # The pipe closes when this process ends, and then the run ends too.
        command = [sys.executable, "-m", "xmtc.cli.compare_worker", str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            try:
                process.wait(None if self.end is None else max(0.0, self.end - time.monotonic()))
            except subprocess.TimeoutExpired:
                _stop(process)
                return SPENT
            except KeyboardInterrupt:
                _stop(process)
                raise
        if process.returncode == DISK_FULL:
            raise full_disk(self.folder)
        if process.returncode < 0:
            hint = "; was the memory full?" if process.returncode == -9 else ""
            return f"ended by signal {-process.returncode}{hint}"
        return "" if (folder / RESULT).exists() else f"ended with code {process.returncode} and left no result"

    def found(self, plan: Plan, seed: int, status: Any = "waiting", reason: str = "") -> Run:
        """The run as its folder has it; with this status and reason if the folder has no result."""
        from dataclasses import replace

        from safetensors import SafetensorError
        from safetensors.numpy import load

        from xmtc.evaluation.comparison import Run
        from xmtc.predictions import Predictions, ScoreKind

        run = Run(plan.system, plan.model, self.settings(plan, seed), seed, status, reason, origin=plan.origin)
        run = replace(run, train_documents=self.train_documents, remark=self.remarks.get(plan.path, ""))
        if plan.origin == "predictions":
            return replace(run, status="finished", reason="", top=self.files[plan.path])
        folder = self.place(plan, seed)
        try:
            result = json.loads((folder / RESULT).read_text("utf-8"))
            if result["status"] != "finished":
                return replace(run, status="failed", reason=result["reason"])
            arrays = load((folder / f"{TOP}.safetensors").read_bytes())
            labels = plan.labels if plan.origin == "folder" else self.labels
            top = Predictions(arrays["ids"], arrays["scores"], labels, ScoreKind(result["kind"]))
            if len(top) != len(self.truth):
                raise ValueError("predictions for other documents")
        except (OSError, ValueError, KeyError, TypeError, SafetensorError):  # no result yet, or a truncated one
            return run
        return replace(
            run, status="finished", reason="", costs=result["costs"], top=top, micro_f1=result.get("micro_f1")
        )

    def settings(self, plan: Plan, seed: int) -> dict[str, Any]:
        """The settings of a run; a seed that is set stays."""
        return {"seed": seed, **plan.settings} if plan.origin == "trained" else plan.settings

    def place(self, plan: Plan, seed: int) -> Path:
        """The folder of a run: named for its model, settings and documents, so that the same run is found again."""
        import hashlib
        import re

        from xmtc.atomic_folder import MANIFEST
        from xmtc.models.registry import make

        if plan.origin == "folder":
            manifest = (plan.folder.folder / MANIFEST).read_bytes()  # it has the checksums of all files
            what: dict[str, Any] = {"folder": hashlib.sha256(manifest).hexdigest()}
        else:
            config = make(plan.model, **self.settings(plan, seed)).config.model_dump(mode="json")
            what = {"model": plan.model, "config": config}
        identity = json.dumps({**what, **self.prints}, sort_keys=True)
        ending = f"{seed}-{hashlib.sha256(identity.encode()).hexdigest()[:10]}"
        # The same run under another name, as when a recipe is called by its path, need not be done again.
        before = sorted((self.folder / "runs").glob(f"*-{ending}"))
        slug = re.sub(r"[^a-z0-9]+", "-", plan.system.lower()).strip("-")[:40]
        return before[0] if before else self.folder / "runs" / f"{slug}-{ending}"

    def _read_file(self, plan: Plan) -> Predictions:
        from xmtc.prediction_files.reading import read_predictions

        return read_predictions(plan.path, self.truth)

    def _remark(self, plan: Plan, reading: Reading) -> str:
        """What to know of the figures of a model folder; it is said at once, too."""
        from xmtc.evaluation.comparison import trained_on_test

        manifest = plan.folder.manifest
        kept = manifest.get("reading", {})
        said = {**REMEMBERED, **reading.remembered()}
        other = [f"--{name.replace('_', '-')} {value}" for name, value in kept.items() if said.get(name) != value]
        if other:
            warnings.warn(f"{plan.name}: its training documents were read with {' '.join(other)}", stacklevel=2)
        remark = trained_on_test(manifest.get("training", {}).get("sketch"), self.truth)
        if remark:
            warnings.warn(f"{plan.name}: {remark}", stacklevel=2)
        return remark


def _stop(process: Any) -> None:
    """End a run, gently at first: what it has finished is kept."""
    import subprocess

    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
