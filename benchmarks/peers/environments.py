"""The environments of the other programs: each has its own, made on first use, with fixed versions."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Environment:
    """What is installed, and what of it without the packages that it asks for."""

    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()


SCIPY = ("numpy==2.4.6", "scipy==1.17.1")
ENVIRONMENTS = {
    "omikuji": Environment((*SCIPY, "omikuji==0.5.2")),
    # XR-Linear needs neither torch nor transformers, which would be 6 GB.
    "pecos": Environment(("numpy==1.26.4", "scipy==1.13.1", "scikit-learn==1.9.1"), alone=("libpecos==1.2.8",)),
    "napkinxc": Environment((*SCIPY, "napkinxc==0.7.2")),
    "libmultilabel": Environment((*SCIPY, "libmultilabel==0.10.0", "setuptools<81")),
    # Built here, for this processor; its predictions need numpy 1.
    "fasttext": Environment(("numpy==1.26.4", "scipy==1.14.1", "fasttext==0.9.3")),
    # Without a version of torch pip would bring gigabytes of GPU libraries.
    "libmultilabel-nn": Environment(
        (*SCIPY, "libmultilabel[nn]==0.10.0", "torch==2.13.0", "lightning==2.6.6", "setuptools<81")
    ),
}


class Problem(Exception):
    """Why a tool has no figures; the others go on."""


def python_of(peer: str, venvs: Path) -> Path:
    """The interpreter of a peer's environment, which is made if it is missing or has other versions."""
    environment, folder = ENVIRONMENTS[peer], venvs / peer
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(environment.packages + environment.alone)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {peer} into {folder}", file=sys.stderr)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            output_of([sys.executable, "-m", "venv", "--clear", str(folder)])
            output_of([*pip, *environment.packages])
            if environment.alone:
                output_of([*pip, "--no-deps", *environment.alone])
        except Problem as problem:
            raise Problem(f"could not be installed: {problem}") from problem
        stamp.write_text(wanted)
    return python


def output_of(command: list[str], **settings: Any) -> str:
    """Standard output of a command, or a Problem with what it said last, its last error if there is one."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, **settings)
    except subprocess.TimeoutExpired as expired:
        raise Problem(f"stopped after {expired.timeout:g} s") from expired
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        lines = [line for line in lines if "Error" in line] or lines
        raise Problem(lines[-1] if lines else f"ended with code {done.returncode}")
    return str(done.stdout)
