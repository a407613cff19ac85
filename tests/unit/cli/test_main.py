"""How a command ends."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import atexit, contextlib, gc
from queue_manager.cli.main import main

atexit.register(lambda: print(gc.get_freeze_count() > 0))
with contextlib.suppress(SystemExit):
    main(["--help"])
print(gc.get_freeze_count() > 0)
"""


def test_a_command_exits_without_a_search_for_cycles() -> None:
    """Until then the garbage collector works. Callbacks at the exit are called in reverse order."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == ["False", "True"]
