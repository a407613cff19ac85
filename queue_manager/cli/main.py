"""The `sluice` command.

This module imports almost nothing, so that a Ctrl-C during the imports of a command ends it without a traceback.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's own takes a while to be read
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

# Exit codes of a process that a signal ended, as a shell reports them.
INTERRUPTED = 130  # SIGINT
BROKEN_PIPE = 141  # SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 fine, 1 not as expected, 2 refused or never, 3 error.

    141 if the reader of its output went away, as of a program that SIGPIPE ends.
    """
    try:
        return command(argv)
    except KeyboardInterrupt:
        return INTERRUPTED


def command(argv: Sequence[str] | None) -> int:
    from importlib import import_module

    from queue_manager.cli import streams
    from queue_manager.cli.exits import EXIT_ERROR, CommandRefused

    streams.prepare()
    name = "sluice"
    try:
        args = arguments(argv)
        name = f"sluice {args.command}"
        code: int = import_module(f"queue_manager.cli.{args.command.replace('-', '_')}").run(args)
        sys.stdout.flush()
    except CommandRefused as refusal:
        print(streams.printable(f"{name}: {refusal}"), file=sys.stderr)  # noqa: T201
        return refusal.code
    except BrokenPipeError:
        streams.give_up()
        return BROKEN_PIPE
    except OSError as error:  # a full disk, say
        streams.give_up()
        print(streams.printable(f"{name}: {error}"), file=sys.stderr)  # noqa: T201
        return EXIT_ERROR
    return code


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Raises SystemExit for --help and mistakes, after what argparse printed has reached its reader."""
    from queue_manager.cli.arguments import parser

    try:
        return parser().parse_args(argv)
    except SystemExit:
        sys.stdout.flush()
        raise


if __name__ == "__main__":
    sys.exit(main())
