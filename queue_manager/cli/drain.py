"""`sluice drain`: sets spec.stopPolicy of a queue to HoldAndDrain."""

from __future__ import annotations

import argparse

from queue_manager.api import labels
from queue_manager.cli import stop_policy


def run(args: argparse.Namespace) -> int:
    return stop_policy.run(args, labels.HOLD_AND_DRAIN)
