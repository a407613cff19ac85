"""Build promtool, the checker of Prometheus, for the tests of alert rules and metrics: `make control-plane`.

It is built from the Go module pinned in go.mod beside this file, into a cache outside the checkout that is keyed by the
version: a second run takes no time. Service discovery is left out (`remove_all_sd`): it is half of the code, needs the
client libraries of thirty clouds, and checks no rule.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"
TAGS = "remove_all_sd,slicelabels"


def path() -> Path:
    """Where the binary is, or will be."""
    [pinned] = re.findall(r"^require github\.com/prometheus/prometheus (v\S+)$", (HERE / "go.mod").read_text(), re.M)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "sluice" / f"promtool-{pinned}" / "promtool"


def main() -> int:
    target = path()
    if not target.is_file():
        print(f"building promtool {target.parent.name.removeprefix('promtool-')} ...", flush=True)
        started = time.monotonic()
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_suffix(".part")
        command = ["go", "build", "-mod=readonly", "-tags", TAGS, "-ldflags", "-s -w", "-o", str(scratch), PACKAGE]
        subprocess.run(command, cwd=HERE, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
        scratch.rename(target)
        print(f"  promtool: built in {time.monotonic() - started:.0f} s", flush=True)
    print(f"✔ {'promtool':24} {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
