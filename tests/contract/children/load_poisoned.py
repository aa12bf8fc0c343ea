"""Replace each file of a model by a harmful pickle (with right checksums) and load: it must be refused, not opened."""

import json
import pickle  # to make the poison; the package itself never imports it
import shutil
import sys
from pathlib import Path

import xmtc
from xmtc import storage
from xmtc.errors import XmtcError

model, harm = Path(sys.argv[1]), Path(sys.argv[2])


class Poison:
    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(harm), "w")


names = list(json.loads((model / "manifest.json").read_text())["files"])
for name in names:
    copy = model.with_name(f"poisoned-{name}")
    shutil.copytree(model, copy)
    (copy / name).write_bytes(pickle.dumps(Poison()))
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"][name] = storage._facts(copy / name)
    manifest["checksum"] = storage._checksum(manifest)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    try:
        xmtc.load(copy)
    except XmtcError:
        continue
    sys.exit(f"{name}: a pickle was accepted")
print(f"refused {len(names)}")
