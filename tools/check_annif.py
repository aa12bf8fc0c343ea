"""Can the core be installed beside Annif, whose own requirements are narrow? Takes two minutes and the network.

    python tools/check_annif.py

Makes a venv in a temporary folder, installs Annif and the wheel of this repository together, has pip check that nothing
is at odds, trains `dismec` on a few documents and tags with it, and prints the versions and the size.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
ANNIF = "annif==1.4.3"
SHOWN = ("annif", "huggingface-hub", "numpy", "scipy", "numba", "pyarrow", "pydantic", "typer", "click", "xmtc")
PROGRAM = """
from importlib.metadata import PackageNotFoundError, version
import sys
import annif
import xmtc
for name in sys.argv[1:]:
    try:
        print(f"{name} {version(name)}")
    except PackageNotFoundError:
        print(f"{name} is not needed")
corpus = xmtc.Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 10, [["fruit"]] * 2 + [["weather"]] * 2
                        + ([["fruit"]] * 2 + [["weather"]] * 2) * 9)
xmtc.make("dismec").fit(corpus).save("tagger")
top = xmtc.load("tagger").predict(["an apple", "the sky"], k=1).names()
assert [row[0][0] for row in top] == ["fruit", "weather"], top
print("dismec trained, saved, loaded and tagged:", top)
"""


def main() -> int:
    """Install, check, try; an error of any step ends it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        python = str(place / "venv" / "bin" / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        run([*pip, "wheel", "--no-deps", "--wheel-dir", str(place), str(ROOT)])
        (wheel,) = place.glob("*.whl")
        run([*pip, "install", ANNIF, str(wheel)])
        run([*pip, "check"])
        run([python, "-c", PROGRAM, *SHOWN], place)
        size = sum(file.lstat().st_size for file in (place / "venv").rglob("*")) / 1e6
        print(f"{ANNIF} and xmtc together: {size:.0f} MB")
    return 0


def run(command: list[str], folder: Path = ROOT) -> None:
    """Run a command and stop if it fails."""
    if code := subprocess.run(command, cwd=folder, check=False).returncode:
        sys.exit(f"failed with {code}: {' '.join(command[:6])} ...")


if __name__ == "__main__":
    sys.exit(main())
