"""xmtc beside Annif, whose own requirements are narrow, and as its backend. Takes minutes and the network.

    python tools/check_annif.py

Makes a venv in a temporary folder, installs the wheel of this repository with its extra `annif`, has pip check that
nothing is at odds, trains `dismec` on a few documents and tags with it, prints the versions and the size, and runs the
tests of the backend there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
ANNIF = "annif==1.4.3"
TESTS = ("tests/integrations/test_annif.py", "src/xmtc/integrations/annif")
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
        run([*pip, "install", ANNIF, f"{wheel}[annif]"])
        run([*pip, "check"])
        run([python, "-c", PROGRAM, *SHOWN], place)
        size = sum(file.lstat().st_size for file in (place / "venv").rglob("*")) / 1e6
        print(f"{ANNIF} and xmtc together: {size:.0f} MB")
        run([*pip, "install", "--constraint", str(ROOT / "constraints.txt"), "pytest", "hypothesis"])
        run([python, "-m", "pytest", "-o", f"cache_dir={place / 'cache'}", *TESTS])
    return 0


def run(command: list[str], folder: Path = ROOT) -> None:
    """Run a command and stop if it fails."""
    # Without the folder of the sources, which another environment may have put there: the wheel is tested.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if code := subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
        sys.exit(f"failed with {code}: {' '.join(command[:6])} ...")


if __name__ == "__main__":
    sys.exit(main())
