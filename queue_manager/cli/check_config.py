"""`sluice check-config F`: prints all errors with their lines, or the configuration with all defaults filled in.

Errors, settings without effect, fields for which `sluice install` refuses the file, and advice go to standard error,
the configuration to standard output.
"""

from __future__ import annotations

import argparse
import sys

from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.standard_streams import say, sentence
from queue_manager.configuration import ConfigurationError, loads, own_namespace
from queue_manager.configuration.advice import advice
from queue_manager.configuration.config_as_yaml import as_yaml
from queue_manager.configuration.loading import read_text
from queue_manager.installation.fixed_config_fields import certificate_misfits, misfits

STDIN = "<stdin>"
MANAGED = "Managed"  # the default of `certificates.source`


def run(args: argparse.Namespace) -> int:
    """Print the configuration with all defaults, or its mistakes on stderr; return the exit code."""
    name = args.file
    try:
        name, text = named_text(args.file)
        config = loads(text, name, own_namespace=own_namespace())
    except ConfigurationError as error:
        count = len(error.problems)
        say(f"{error}\n{name}: {count} {'mistake' if count == 1 else 'mistakes'}")
        return EXIT_NEVER
    head = sentence(f"# {name} is valid. With defaults:", sys.stdout, indent=0).splitlines()
    sys.stdout.write("\n# ".join(head) + f"\n{as_yaml(config)}")
    sys.stdout.flush()
    for field in config.ignored:
        say(f"{name}: ignored: {field}")
    for problem in (*misfits(config, text, name), *certificate_misfits(config, text, name, MANAGED)):
        say(f"{problem} (`sluice install --config` refuses it)")
    for problem in advice(config, text, name):
        say(f"{problem} (advice)")
    return EXIT_OK


def named_text(file: str) -> tuple[str, str]:
    """Return a name for messages and the text of a configuration in a file, or on standard input for `-`.

    Raises ConfigurationError or CommandRefused.
    """
    if file != "-":
        return file, read_text(file)
    try:
        text = sys.stdin.read()
        if not text.strip():  # empty input means that the command before the pipe failed
            raise CommandRefused(f"{STDIN}: is empty", EXIT_NEVER)
        return STDIN, text
    except UnicodeDecodeError as error:
        raise CommandRefused(f"{STDIN}: byte {error.start} is not UTF-8", EXIT_NEVER) from error
