"""The steps of the Dockerfile without Docker: a clean venv, then a read-only root and a user without rights.

    python tools/check_image.py [--keep]

Needs root, unshare and chroot of Linux, and a package registry; takes minutes. Each instruction of the Dockerfile is
run in a root of its own that has this machine's system folders (its Python stands in for the image's) and nothing else
of it. Then that root is mounted read-only, without any folder that can be written, and the image's command is run by
its user with a model: the health check must pass, an answer must come, SIGTERM must end it with 0, nothing may be
compiled. Last, without the compiled code, the server must say at once that it compiles.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSIDE = "XMTC_IMAGE_ROOT"  # set in the process that is in a mount namespace of its own
SYSTEM = ("bin", "sbin", "usr", "lib", "lib32", "lib64", "etc", "dev", "proc", "sys")
CHROOT = shutil.which("chroot") or "chroot"
ADDRESS = "http://127.0.0.1:8000"
PATIENCE = 120  # seconds until the server must be ready
TRAIN = """
import xmtc
from xmtc.data import demo_folder
xmtc.make("dismec").fit(xmtc.read(demo_folder())).save("/models/tagger")
"""


@dataclass
class Image:
    """What an image is when its Dockerfile has been run so far."""

    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    health: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    r"""The instructions of a Dockerfile, each with its words.

    >>> instructions("# why\nFROM a AS b\nHEALTHCHECK --x=1 \\\n    CMD [\"c\"]\n")
    [('FROM', 'a AS b'), ('HEALTHCHECK', '--x=1 CMD ["c"]')]
    """
    lines = "\n".join(line for line in dockerfile.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\s*\\\n\s*", " ", lines)
    return [(name, words) for name, _, words in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def expanded(words: str, known: dict[str, str]) -> str:
    """Words with variables put in.

    >>> expanded("/a:$PATH:${B}", {"PATH": "/bin", "B": "b"})
    '/a:/bin:b'
    """
    return re.sub(r"\$\{?(\w+)\}?", lambda found: known.get(found[1], ""), words)


def main() -> int:
    """Build and try; 1, and why, if something is wrong."""
    if os.environ.get(INSIDE):
        return in_namespace(Path(os.environ[INSIDE]))
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "chroot", "mount"))):
        print("check_image: needs root, unshare, chroot and mount", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="xmtc-image-"))
    folder.chmod(0o755)
    try:
        # A process namespace too, so that nothing outlives this.
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", sys.executable, __file__]
        return subprocess.run(command, env={**os.environ, INSIDE: str(folder)}, check=False).returncode
    finally:
        if "--keep" in sys.argv:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder)


def in_namespace(root: Path) -> int:
    """Everything, where mounts are nobody else's."""
    mount("--make-rprivate", "/")
    mounted = system_folders(root)
    image = Image()
    for name, words in instructions((ROOT / "Dockerfile").read_text("utf-8")):
        follow(image, name, words, root)
    size = sum(file.lstat().st_size for file in (root / "app").rglob("*")) / 1e6
    print(f"==> /app: {size:.0f} MB")
    (root / "models").mkdir()
    shutil.copytree(root / "app" / "cache", root / "cache")  # training compiles more than serving: not into the image's
    python = root / "train.py"
    python.write_text(TRAIN)
    run(image, root, ["python", "/train.py"], "0:0", {"NUMBA_CACHE_DIR": "/cache", "XDG_CACHE_HOME": "/cache"})
    shutil.rmtree(root / "cache")
    for place in [*mounted, root]:
        mount("-o", "remount,ro,bind", str(place))
    writable = [place for place in ("/app", "/tmp", "/models", "/usr") if can_write(image, root, place)]
    wrong = [f"{place} can be written" for place in writable]
    wrong += [f"as built: {each}" for each in served(image, root, {}, cold=False)]
    wrong += [f"cold: {each}" for each in served(image, root, {"NUMBA_CACHE_DIR": "/nowhere"}, cold=True)]
    for each in wrong:
        print(f"wrong: {each}")
    print("check_image: " + (f"{len(wrong)} wrong" if wrong else "the image is as it should be"))
    return int(bool(wrong))


def mount(*words: str) -> None:
    """Mount something; an error ends the check."""
    subprocess.run(["mount", *words], check=True)


def system_folders(root: Path) -> list[Path]:
    """Put this machine's system folders, and its Python, into a root; the places that are to be read-only later."""
    mount("--bind", str(root), str(root))
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    python = Path(sys.base_prefix)
    places = [Path("/", name) for name in SYSTEM if Path("/", name).exists()]
    if not python.is_relative_to("/usr"):
        places.append(python)
    found = []
    for place in places:
        inside = root / place.relative_to("/")
        if place.is_symlink():
            inside.symlink_to(place.readlink())
            continue
        inside.mkdir(parents=True)
        if place == Path("/proc"):
            mount("-t", "proc", "proc", str(inside))
            continue
        mount("--rbind" if place.name == "dev" else "--bind", str(place), str(inside))
        if place.name not in ("dev", "sys"):
            found.append(inside)
    return found


def follow(image: Image, name: str, words: str, root: Path) -> None:
    """Do one instruction; an error for one that this does not know."""
    known = {**image.arguments, **image.environment}
    print(f"==> {name} {words}", flush=True)
    if name == "FROM":
        path = f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        image.environment, image.arguments = {"PATH": path}, {}
    elif name == "ARG":
        key, _, value = words.partition("=")
        image.arguments[key] = value
    elif name == "ENV":
        image.environment |= dict(part.split("=", 1) for part in shlex.split(expanded(words, known)))
    elif name == "COPY" and words.startswith("--from=build "):
        source, target = words.split()[1:]
        if source != target:
            raise ValueError(f"COPY {words}: both stages share one root here, so a path must stay as it is")
        shutil.rmtree(root / "build")
    elif name == "COPY":
        copy_context(root / words.split()[1].lstrip("/"))
    elif name == "RUN":
        registry = {key: value for key, value in os.environ.items() if re.match(r"(?i)pip_|https?_proxy|no_proxy", key)}
        start = time.perf_counter()
        run(image, root, ["sh", "-c", words], image.user, {"PIP_QUIET": "1", **registry, **image.arguments})
        print(f"    {time.perf_counter() - start:.0f} s", flush=True)
    elif name == "USER":
        image.user = words
    elif name == "HEALTHCHECK":
        image.health = json.loads(words.partition(" CMD ")[2])
    elif name == "ENTRYPOINT":
        image.entry = json.loads(words)
    elif name == "CMD":
        image.command = json.loads(words)
    elif name != "EXPOSE":
        raise ValueError(f"{name}: an instruction that this check does not know")


def copy_context(target: Path) -> None:
    """Copy what .dockerignore lets through."""
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    target.mkdir()
    for name in allowed:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def chrooted(root: Path, command: list[str], user: str) -> list[str]:
    """A command inside the root, by a user."""
    return [CHROOT, f"--userspec={user}", "--groups=", str(root), *command]


def run(image: Image, root: Path, command: list[str], user: str, more: dict[str, str]) -> None:
    """Run a step of the build; an error ends the check."""
    environment = {**image.environment, "HOME": "/tmp", **more}
    subprocess.run(chrooted(root, command, user), env=environment, check=True)


def can_write(image: Image, root: Path, place: str) -> bool:
    """Whether the image's user, or root, could write somewhere."""
    words = ["sh", "-c", f"touch {place}/probe 2> /dev/null"]
    return any(
        subprocess.run(chrooted(root, words, user), env=image.environment, check=False).returncode == 0
        for user in (image.user, "0:0")
    )


def served(image: Image, root: Path, more: dict[str, str], cold: bool) -> list[str]:
    """Start the image's command, ask, stop it; what was wrong."""
    wrong = []
    environment = {**image.environment, "HOME": "/nonexistent", **more}
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        command = chrooted(root, [*image.entry, *image.command], image.user)
        server = subprocess.Popen(command, env=environment, stderr=said, stdout=said)
        health = chrooted(root, image.health, image.user)
        while time.perf_counter() - start < PATIENCE and server.poll() is None:
            if subprocess.run(health, env=environment, capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.2)
        else:
            wrong.append("the health check never passed")
        print(f"==> ready after {time.perf_counter() - start:.1f} s", flush=True)
        if server.poll() is None:
            wrong += asked()
            server.send_signal(signal.SIGTERM)
            code = server.wait(60)
            wrong += [f"SIGTERM ended it with {code}"] if code else []
        said.seek(0)
        lines = said.read().splitlines()
    compiling = [at for at, line in enumerate(lines) if line.startswith("compil")]
    ready = [at for at, line in enumerate(lines) if '"path":"/v2/health/ready"' in line.replace('": "', '":"')]
    if cold and (not compiling or (ready and compiling[0] > ready[-1])):
        wrong.append("does not say that it compiles")
    if not cold and compiling:
        wrong.append(f"compiles: {lines[compiling[0]]}")
    wrong += [line for line in lines if "Traceback" in line or '"status":500' in line]
    print("\n".join(f"    {line[:160]}" for line in (lines[:3] if not wrong else lines[-30:])), flush=True)
    return wrong


def asked() -> list[str]:
    """Ask for the page, for labels and for a reason; what was wrong."""
    wrong = []
    try:
        with urllib.request.urlopen(f"{ADDRESS}/", timeout=30) as page:
            wrong += [] if b"<!doctype html>" in page.read() else ["/ is not the page"]
        labels = posted("predict", {"documents": ["a fast mail server"]})["results"][0]["labels"]
        why = posted("explain", {"text": "a fast mail server", "label": labels[0]["id"]})
        wrong += [] if len(labels) == 5 and why["words"] else [f"odd answers: {labels}, {why}"]
    except (OSError, KeyError) as error:
        wrong.append(f"no answer: {error}")
    return wrong


def posted(what: str, body: object) -> dict[str, list[dict[str, list[dict[str, str]]]]]:
    """The answer of the model to a request."""
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{ADDRESS}/v1/models/tagger/{what}", data, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, list[dict[str, list[dict[str, str]]]]] = json.load(answer)
    return found


if __name__ == "__main__":
    sys.exit(main())
