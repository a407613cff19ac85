"""The `sluice` command.

This module imports almost nothing at module level, so that `main` handles a Ctrl-C during the imports of a command.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # avoids the import of typing, which is slow
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

# Exit codes of a process that a signal ended, as a shell reports them.
INTERRUPTED = 130  # SIGINT
BROKEN_PIPE = 141  # SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0 success, 1 unexpected result, 2 refused or never, 3 error.

    130 after Ctrl-C, and 141 if the reader of the output exited, as for a program that SIGPIPE ends.
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
        streams.discard_output()
        return BROKEN_PIPE
    except OSError as error:  # e.g. a full disk
        streams.discard_output()
        print(streams.printable(f"{name}: {error}"), file=sys.stderr)  # noqa: T201
        return EXIT_ERROR
    return code


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments. Raises SystemExit for --help and usage errors, after flushing argparse's output."""
    from queue_manager.cli.arguments import parser

    try:
        return parser().parse_args(argv)
    except SystemExit:
        sys.stdout.flush()
        raise


if __name__ == "__main__":
    sys.exit(main())
