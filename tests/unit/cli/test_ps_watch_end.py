"""Ctrl-C ends `sluice ps --watch` at any moment."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import pytest

from queue_manager.cli.ps_watch import Follower


async def test_it_ends_in_the_moment_of_a_change() -> None:
    changed = asyncio.Event()
    unused: Any = None
    follower = Follower(unused, argparse.Namespace(), unused, unused, changed)
    waiting = asyncio.create_task(follower._changes_within(10))
    await asyncio.sleep(0.01)
    changed.set()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
