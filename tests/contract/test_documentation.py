"""queue_manager/local/DIFFERENCES.md has a row for each difference that a test excuses, and no other rows."""

from __future__ import annotations

import re
from pathlib import Path

ROWS = re.compile(r"^\| ([a-z0-9-]+) \|", re.MULTILINE)
EXCUSES = re.compile(r'(?:differs"?(?:=| = |: )|\d: )"([a-z0-9-]+)"')


def test_excused_differences_are_exactly_the_rows_of_the_table() -> None:
    here = Path(__file__).parent
    table = (here.parents[1] / "queue_manager" / "local" / "DIFFERENCES.md").read_text()
    excused = {key for file in here.glob("test_*.py") for key in EXCUSES.findall(file.read_text())}
    assert excused
    assert excused <= set(ROWS.findall(table)) - {"key"}
