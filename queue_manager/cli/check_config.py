"""`sluice check-config F`: prints all errors with their lines, or the configuration with all defaults filled in.

Errors and settings without effect go to standard error, the configuration to standard output.
"""

from __future__ import annotations

import argparse
import sys

from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.standard_streams import say, sentence
from queue_manager.configuration import ConfigurationError, KueueConfig, load, loads, own_namespace
from queue_manager.configuration.config_as_yaml import as_yaml

STDIN = "<stdin>"


def run(args: argparse.Namespace) -> int:
    """Print the configuration with all defaults, or its mistakes on stderr; return the exit code."""
    name = STDIN if args.file == "-" else args.file
    try:
        config = read(args.file)
    except ConfigurationError as error:
        count = len(error.problems)
        say(f"{error}\n{name}: {count} {'mistake' if count == 1 else 'mistakes'}")
        return EXIT_NEVER
    head = sentence(f"# {name} is valid. With defaults:", sys.stdout, indent=0).splitlines()
    sys.stdout.write("\n# ".join(head) + f"\n{as_yaml(config)}")
    sys.stdout.flush()
    for field in config.ignored:
        say(f"{name}: ignored: {field}")
    return EXIT_OK


def read(file: str) -> KueueConfig:
    """Return the configuration in a file, or on standard input for `-`."""
    if file != "-":
        return load(file)
    try:
        text = sys.stdin.read()
        if not text.strip():  # empty input means that the command before the pipe failed
            raise CommandRefused(f"{STDIN}: is empty", EXIT_NEVER)
        return loads(text, STDIN, own_namespace=own_namespace())
    except UnicodeDecodeError as error:
        raise CommandRefused(f"{STDIN}: byte {error.start} is not UTF-8", EXIT_NEVER) from error
