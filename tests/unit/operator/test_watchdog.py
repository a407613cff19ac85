"""A process whose event loop hangs is ended, with the place where it hangs."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough  # a process each

PROGRAM = """
import asyncio, time
from queue_manager.operator.watchdog import watch_event_loop

def cycle_without_end():
    time.sleep(60)

async def main(hangs):
    watching = asyncio.create_task(watch_event_loop(hang_seconds=0.5, put_off_seconds=0.1))
    await asyncio.sleep(0)
    if hangs:
        cycle_without_end()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    time.sleep(1.0)  # longer than a hang

asyncio.run(main({hangs}))
print("ended by itself")
"""


def run(*, hangs: bool) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.replace("{hangs}", str(hangs))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=50)


def test_a_process_that_hangs_ends_with_the_stack_of_what_it_does() -> None:
    done = run(hangs=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "in cycle_without_end" in done.stderr


def test_a_process_that_no_longer_watches_may_take_its_time() -> None:
    done = run(hangs=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended by itself\n", "")
