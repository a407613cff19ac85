"""The `sluice` command. It imports next to nothing itself: Ctrl-C while the rest is being read is as any other."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's own takes a while to be read
if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130  # exit code, as of a shell


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 fine, 1 not as expected, 2 refused or never, 3 error."""
    try:
        return command(argv)
    except KeyboardInterrupt:
        return INTERRUPTED


def command(argv: Sequence[str] | None) -> int:
    from importlib import import_module

    from queue_manager.cli import streams
    from queue_manager.cli.arguments import parser
    from queue_manager.cli.exits import EXIT_ERROR, Refusal

    streams.prepare()
    args = parser().parse_args(argv)
    try:
        code: int = import_module(f"queue_manager.cli.{args.command.replace('-', '_')}").run(args)
        sys.stdout.flush()
    except Refusal as refusal:
        print(streams.printable(f"sluice {args.command}: {refusal}"), file=sys.stderr)  # noqa: T201
        return refusal.code
    except BrokenPipeError:  # the reader of a pipe has had enough
        streams.give_up()
        return EXIT_ERROR
    except OSError as error:  # no room for what was to be printed, say
        streams.give_up()
        print(streams.printable(f"sluice {args.command}: {error}"), file=sys.stderr)  # noqa: T201
        return EXIT_ERROR
    return code


if __name__ == "__main__":
    sys.exit(main())
