"""What `git commit` mends in the files that it is given: blanks at line ends, the newline at the end; no large files.

    python tools/hygiene.py FILES...    # exits 1 if a file was changed or is too large

`.pre-commit-config.yaml` calls it, after `.venv/bin/pre-commit install`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LARGEST = 1_000_000  # bytes; data has to be worth it
MADE = (".svg", ".json", ".tsv", ".csv")  # written by programs, or where a blank at the end has a meaning


def tidy(text: bytes) -> bytes:
    r"""The text without blanks at line ends, with one newline at its end.

    >>> tidy(b"a \nb\t\n\n\n"), tidy(b"a"), tidy(b"")
    (b'a\nb\n', b'a\n', b'')
    """
    text = re.sub(rb"[ \t]+(?=\r?\n|\Z)", b"", text).rstrip(b"\r\n")
    return text + b"\n" if text else b""


def main() -> int:
    """Mend the files that are named."""
    failed = 0
    for path in map(Path, sys.argv[1:]):
        content = path.read_bytes()
        if len(content) > LARGEST:
            print(f"{path}: {len(content):,} bytes; data above {LARGEST:,} does not belong into the repository")
            failed = 1
        if b"\0" in content or path.suffix in MADE:
            continue
        if (tidied := tidy(content)) != content:
            path.write_bytes(tidied)
            print(f"{path}: mended")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
