"""Running promtool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.control_plane.promtool import build

RULES = Path(__file__).parents[3] / "deploy" / "monitoring" / "rules.yaml"


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run it; its exit code is not checked."""
    assert build.path().is_file(), "run `make control-plane`"
    return subprocess.run(
        [build.path(), *arguments], input=stdin, text=True, capture_output=True, check=False, timeout=60
    )
