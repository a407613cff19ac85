"""The `sluice` command.

This module imports almost nothing at module level, so that `main` handles a Ctrl-C during the imports of a command.
"""

from __future__ import annotations

import os
import sys

from queue_manager.cli.exit_codes import (
    CREATING,
    EXIT_BROKEN_PIPE,
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_NEVER,
    EXIT_REFUSED,
    CommandRefused,
)

TYPE_CHECKING = False  # avoids the import of typing, which is slow
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code, see `exit_codes`.

    0 success, 1 not the wanted result, 2 a wrong request or a Job that can never start, 3 not now, 4 refused and
    nothing created, 130 after Ctrl-C, 141 if the reader of the output exited, as for a program that SIGPIPE ends.
    """
    try:
        return command(argv)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def command(argv: Sequence[str] | None) -> int:
    """Run one command and return its exit code. KeyboardInterrupt is left to `main`."""
    import atexit
    import gc
    from importlib import import_module

    from queue_manager.cli import standard_streams

    # Otherwise the interpreter searches all objects for cycles when it exits: a quarter of a second of CPU, in which a
    # manager on a busy machine exceeds the time that it has to stop.
    atexit.register(gc.freeze)
    standard_streams.prepare()
    name = "sluice"
    try:
        try:
            args = arguments(argv)
            name = f"sluice {args.command}"
            module = (
                "import_jobs" if args.command == "import" else args.command.replace("-", "_")
            )  # a keyword of Python
            run = import_module(f"queue_manager.cli.{module}").run
        except KeyboardInterrupt:
            given = sys.argv[1:] if argv is None else argv
            if given and given[0] in CREATING:
                standard_streams.say(f"sluice {given[0]}: interrupted: nothing was created")
            raise
        code: int = run(args)
        sys.stdout.flush()
    except CommandRefused as refusal:
        text = str(refusal)
        if refusal.missing is not None:
            from queue_manager.cli.deleted_jobs import deleted_job

            text = deleted_job(args, refusal.missing) or text
        if refusal.effect:
            text += f"; {refusal.effect}"
        sys.stderr.write(standard_streams.sentence(f"{name}: {text}", sys.stderr))
        return refusal.code
    except BrokenPipeError:
        standard_streams.discard_output()
        return EXIT_BROKEN_PIPE
    except OSError as error:  # e.g. a full disk
        standard_streams.discard_output()
        sys.stderr.write(standard_streams.sentence(f"{name}: {error}", sys.stderr))
        return EXIT_ERROR
    return code


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments. Raises SystemExit for --help and usage errors, after flushing argparse's output.

    A usage error has the usage of its command; without a command the help is printed. Both end with EXIT_NEVER, or
    EXIT_REFUSED where EXIT_NEVER would mean that a Job was created.
    """
    from queue_manager.cli.arguments import parser

    if "_ARGCOMPLETE" in os.environ:  # a shell asks what completes a line, see `sluice completion`
        from queue_manager.cli import completers

        completers.answer(parser())
    from queue_manager.cli.man_page import commands_of

    given = sys.argv[1:] if argv is None else argv
    whole = parser()
    try:
        if not given:
            whole.print_help(sys.stderr)
            raise SystemExit(EXIT_NEVER)
        found, unknown = whole.parse_known_args(given)
        if unknown:  # parse_args would print the usage of `sluice`, which does not have the options of the command
            command = commands_of(whole)[found.command]
            command.error(f"unrecognized arguments: {' '.join(unknown)}{_instead(unknown, command)}")
        return found
    except SystemExit as ended:
        sys.stdout.flush()
        if ended.code == EXIT_NEVER and given and given[0] in CREATING:
            raise SystemExit(EXIT_REFUSED) from None
        raise


def _instead(unknown: Sequence[str], command: argparse.ArgumentParser) -> str:
    """Return which options of the command may have been meant, after a semicolon; "" if none is similar."""
    from queue_manager.visibility.similar_names import similar_names, suggestion

    options = [option[2:] for action in command._actions for option in action.option_strings if option[:2] == "--"]
    name = unknown[0].partition("=")[0]
    if "wait" in options and name == "--timeout":
        return "; the time is that of --wait: --wait 5m"
    near = similar_names(name[2:], options, most=1) if name.startswith("--") else []
    return f"; {suggestion([f'--{option}' for option in near])}" if near else ""


if __name__ == "__main__":
    sys.exit(main())
