"""`sluice man [COMMAND]`: shows a man page on a terminal, and prints it as text elsewhere, or as roff with --roff."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from datetime import date
from importlib.metadata import version

from queue_manager.cli.arguments import parser
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.man_page import commands_of, man_page
from queue_manager.cli.man_text import plain_text

VIEWERS = (("man", "-l", "-"), ("mandoc", "-a"))  # programs that read roff from standard input


def run(args: argparse.Namespace) -> int:
    """Show or print the page; return the exit code."""
    whole = parser()
    if args.page and args.page not in commands_of(whole):
        raise CommandRefused(f"no command {args.page}; `sluice man` lists them all", EXIT_NEVER)
    text = man_page(whole, args.page or "", version("sluice"), date.today())
    if args.roff:
        sys.stdout.write(text)
        return EXIT_OK
    viewer = next((viewer for viewer in VIEWERS if shutil.which(viewer[0])), None)
    if viewer is None or not sys.stdout.isatty():
        sys.stdout.write(plain_text(text))
        return EXIT_OK
    return subprocess.run(viewer, input=text, text=True, check=False).returncode
