"""Build what would be published, into dist/, and check it: `python tools/package.py`.

The sdist and the wheel are built, described as a registry wants it (twine), of one version, and the wheel that a user
would build from the sdist has the same files as ours.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
NEEDED = (
    "xmtc/py.typed",
    "xmtc/data/debtags/labels.tsv",
    "xmtc/data/NOTICE",
    "xmtc/recipe_files/knn/tibkat.yaml",
    "xmtc/serve/static/index.html",
    "xmtc/evaluation/reports/templates/look.css",
)


def main() -> int:
    """Build and check; 1, and the reason on standard error, if something is wrong."""
    import xmtc

    shutil.rmtree(DIST, ignore_errors=True)
    build(ROOT, DIST)
    sdist, wheel = sorted(DIST.glob("*.tar.gz")), sorted(DIST.glob("*.whl"))
    names = [path.name for path in (*sdist, *wheel)]
    if names != [f"xmtc-{xmtc.__version__}.tar.gz", f"xmtc-{xmtc.__version__}-py3-none-any.whl"]:
        return failed(f"dist/ has {', '.join(names)}, which is not one sdist and one wheel of {xmtc.__version__}")
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    if cited is None or cited[1] != xmtc.__version__:
        return failed(f"CITATION.cff has another version than {xmtc.__version__}")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, (*sdist, *wheel))], check=True)
    content = files_in(wheel[0])
    if lacking := [name for name in NEEDED if name not in content]:
        return failed(f"the wheel lacks {', '.join(lacking)}")
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(sdist[0], folder)
        (source,) = Path(folder).iterdir()
        build(source, Path(folder) / "dist", "--wheel")
        (again,) = (Path(folder) / "dist").glob("*.whl")
        if different := content ^ files_in(again):
            return failed(f"a wheel made from the sdist differs: {', '.join(sorted(different)[:5])}")
    print(f"{', '.join(names)}: {len(content)} files in the wheel")
    return 0


def build(source: Path, target: Path, *options: str) -> None:
    """Build with the tools of this environment, so that nothing is fetched."""
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(target), str(source)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def files_in(wheel: Path) -> set[str]:
    """The names of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def failed(reason: str) -> int:
    """Say what is wrong."""
    print(f"package: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
