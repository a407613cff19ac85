"""`sluice check-config F`: every mistake with its line, or the configuration with all defaults filled in."""

from __future__ import annotations

import argparse
import sys

from queue_manager.cli.exits import EXIT_NEVER, EXIT_OK
from queue_manager.cli.streams import printable
from queue_manager.configuration import ConfigurationError, load
from queue_manager.configuration.render import as_yaml


def run(args: argparse.Namespace) -> int:
    try:
        config = load(args.file)
    except ConfigurationError as error:
        count = len(error.problems)
        sys.stderr.write(f"{printable(str(error))}\n{args.file}: {count} {'mistake' if count == 1 else 'mistakes'}\n")
        return EXIT_NEVER
    sys.stdout.write(f"# {args.file} is right. With every default filled in it says:\n{as_yaml(config)}")
    for field in config.ignored:
        sys.stdout.write(f"# ignored: {field}\n")
    return EXIT_OK
