"""Ten thousand made-up requests over all paths of a server (schemathesis): no 5xx, every answer as described.

    python -m benchmarks.serve_schema MODEL [--requests 10000] [--seed 0]

Starts a server of the model folder (a small one will do; it is copied, since `learn` changes it) with feedback and
learning allowed, and runs schemathesis against it until that many requests were sent: bodies, forms, parameters and
methods that are right, and ones that are wrong. Exit code 0: nothing was found.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.serving.server import serving

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection", "unsupported_method", "missing_required_header",
)  # fmt: skip
EXAMPLES = 100  # of each operation in one run; several runs have other seeds


def main() -> int:
    """Run until there were enough requests; 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(options.model, folder / "tagger")
        settings = ("--allow-learn", "--feedback", str(folder / "feedback.jsonl"))
        with serving([str(folder / "tagger")], folder, *settings) as server:
            seed, sent, failed = options.seed, 0, 0
            while sent < options.requests:
                command = [
                    str(Path(sys.executable).with_name("schemathesis")), "run", "--seed", str(seed),
                    "--max-examples", str(EXAMPLES), "--checks", ",".join(CHECKS), "--phases", "coverage,fuzzing",
                    "--suppress-health-check", "all", f"http://127.0.0.1:{server.port}/openapi.json",
                ]  # fmt: skip
                run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                if run.returncode:
                    print(run.stdout[-5000:], run.stderr[-2000:])
                    failed += 1
                seed += 1
                lines = [line for line in server.lines() if line["event"] == "request"]
                sent = len(lines)
                # Before it was ready it said so.
                statuses = {line["status"] for line in lines if (line["path"], line["status"]) != ("/ready", 503)}
                print(f"{sent} requests, statuses {sorted(statuses)}, runs that found something: {failed}", flush=True)
        return 1 if failed or any(status >= 500 for status in statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
