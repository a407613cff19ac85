"""What differs is written down, and what is written down is what tests excuse."""

from __future__ import annotations

import re
from pathlib import Path

ROWS = re.compile(r"^\| ([a-z0-9-]+) \|", re.MULTILINE)
EXCUSES = re.compile(r'(?:differs"?(?:=| = |: )|\d: )"([a-z0-9-]+)"')


def test_every_excuse_is_a_row_of_the_table() -> None:
    here = Path(__file__).parent
    table = (here.parents[1] / "queue_manager" / "local" / "DIFFERENCES.md").read_text()
    excused = {key for file in here.glob("test_*.py") for key in EXCUSES.findall(file.read_text())}
    assert excused
    assert excused <= set(ROWS.findall(table)) - {"key"}
