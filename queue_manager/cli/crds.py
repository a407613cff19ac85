"""`sluice crds`: the definitions of the queue's kinds, for `kubectl apply -f -`."""

from __future__ import annotations

import argparse
import sys

from queue_manager import assets
from queue_manager.cli.exits import EXIT_OK


def run(args: argparse.Namespace) -> int:
    for file in sorted(assets.crds().glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        sys.stdout.write(text if text.startswith("---") else f"---\n{text}")
    return EXIT_OK
