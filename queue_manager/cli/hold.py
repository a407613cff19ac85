"""`sluice hold`: sets spec.stopPolicy of a queue to Hold."""

from __future__ import annotations

import argparse

from queue_manager.api import policy_values
from queue_manager.cli import stop_policy


def run(args: argparse.Namespace) -> int:
    """Stop a queue with Hold: its admitted Workloads keep their quota; return the exit code."""
    return stop_policy.run(args, policy_values.HOLD)
