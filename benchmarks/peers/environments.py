"""The environments of the other programs: each has its own, made on first use, with fixed versions."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Environment:
    """A program, what is installed with it, and whether the packages that it asks for are left out."""

    program: str
    packages: tuple[str, ...]
    alone: bool = False

    @property
    def version(self) -> str:
        """Of the program."""
        return self.program.partition("==")[2]


SCIPY = ("numpy==2.4.6", "scipy==1.17.1")
ENVIRONMENTS = {
    "omikuji": Environment("omikuji==0.5.2", SCIPY),
    # XR-Linear needs neither torch nor transformers, which would be 6 GB.
    "pecos": Environment("libpecos==1.2.8", ("numpy==1.26.4", "scipy==1.13.1", "scikit-learn==1.9.1"), alone=True),
    "napkinxc": Environment("napkinxc==0.7.2", SCIPY),
    "libmultilabel": Environment("libmultilabel==0.10.0", (*SCIPY, "setuptools<81")),
    # Built here, for this processor; its predictions need numpy 1.
    "fasttext": Environment("fasttext==0.9.3", ("numpy==1.26.4", "scipy==1.14.1")),
    # Without a version of torch pip would bring gigabytes of GPU libraries.
    "libmultilabel-nn": Environment(
        "libmultilabel[nn]==0.10.0", (*SCIPY, "torch==2.13.0", "lightning==2.6.6", "setuptools<81")
    ),
}


class Problem(Exception):
    """Why a tool has no figures; the others go on."""


def python_of(peer: str, venvs: Path) -> Path:
    """The interpreter of a peer's environment, which is made if it is missing or has other versions."""
    environment, folder = ENVIRONMENTS[peer], venvs / peer
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = {environment.program, *environment.packages}
    if not stamp.exists() or set(stamp.read_text().split("\n")) != wanted:
        print(f"installing {peer} into {folder}", file=sys.stderr)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            output_of([sys.executable, "-m", "venv", "--clear", str(folder)])
            if environment.alone:
                output_of([*pip, *environment.packages])
                output_of([*pip, "--no-deps", environment.program])
            else:
                output_of([*pip, environment.program, *environment.packages])
        except Problem as problem:
            raise Problem(f"could not be installed: {problem}") from problem
        stamp.write_text("\n".join(sorted(wanted)))
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
