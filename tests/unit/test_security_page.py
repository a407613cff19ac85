"""SECURITY.md: each line has a state, and a test or a reason that fits it; what it says about the linter holds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| ([^|]+) \| (yes|in part|no|n/a) \| ([^|]+) \|$", PAGE, re.MULTILINE)
TEST = re.compile(r"`[\w/]+\.py::\w+`")


def test_every_row_of_the_checklist_is_read() -> None:
    tables = PAGE[PAGE.index("## Who may set what") :]
    rows = [
        line for line in tables.splitlines() if line.startswith("| ") and not line.startswith(("| line", "| field"))
    ]
    assert len(rows) == len(LINES) > 40


@pytest.mark.parametrize(("line", "state", "evidence"), LINES, ids=[line for line, _, _ in LINES])
def test_a_line_has_the_evidence_of_its_state(line: str, state: str, evidence: str) -> None:
    """What holds has a test, what holds in part has one and a reason, and what does not hold has a reason only."""
    reason = TEST.sub("", evidence).strip(" ,;.")
    assert bool(TEST.search(evidence)) is (state in ("yes", "in part"))
    assert state == "yes" or len(reason) > 40, line


CALLS = """
import os, pickle, subprocess, yaml
pickle.loads(data)
eval(data)
exec(data)
yaml.load(data, Loader=yaml.Loader)
os.system(data)
subprocess.run(data, shell=True)
"""


def test_the_linter_refuses_calls_that_execute_data(tmp_path: Path) -> None:
    """With the settings of this repository, so that `make lint` shows that the product has none."""
    (tmp_path / "calls.py").write_text(CALLS)
    config = ["--config", str(ROOT / "pyproject.toml"), "--output-format", "concise", "--no-cache"]
    command = [sys.executable, "-m", "ruff", "check", *config, str(tmp_path / "calls.py")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    found = re.findall(r"calls.py:(\d+):\d+: S\d+", done.stdout)
    assert set(found) == {"3", "4", "5", "6", "7", "8"}, done.stdout + done.stderr
