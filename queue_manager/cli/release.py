"""`sluice release`: sets spec.stopPolicy of a queue to None."""

from __future__ import annotations

import argparse

from queue_manager.api import policy_values
from queue_manager.cli import stop_policy


def run(args: argparse.Namespace) -> int:
    """Let a stopped queue admit Workloads again; return the exit code."""
    return stop_policy.run(args, policy_values.STOP_NONE)
