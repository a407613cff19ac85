"""`sluice completion SHELL`: prints the code that makes a shell complete the arguments of `sluice`.

The shell then calls `sluice` itself with $_ARGCOMPLETE set (`completers.answer`), so that what it offers is always what
the installed version takes.
"""

from __future__ import annotations

import argparse
import sys

from queue_manager.cli.exit_codes import EXIT_OK


def run(args: argparse.Namespace) -> int:
    """Print the completion script of the shell; return the exit code."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["sluice"], use_defaults=False, shell=args.shell))
    return EXIT_OK
