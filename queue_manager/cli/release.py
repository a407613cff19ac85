"""`sluice release`: sets spec.stopPolicy of a queue to None."""

from __future__ import annotations

import argparse

from queue_manager.api import labels
from queue_manager.cli import stop_policy


def run(args: argparse.Namespace) -> int:
    return stop_policy.run(args, labels.STOP_NONE)
