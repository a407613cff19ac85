"""Compares the options of a second `sluice up` with those of the cluster that runs from the directory.

The running process has its options on its command line, which Linux shows in /proc. An option that the second command
was not given does not differ.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
from collections.abc import Mapping
from pathlib import Path

from job_controller.quantities import parse, to_text
from queue_manager.cli.arguments import parser
from queue_manager.cli.arguments.local_commands import DEFAULT_NODES

OF_THIS_MACHINE = "that of this machine"
NOT_GIVEN: Mapping[str, str] = {  # what holds for a cluster that was started without the option
    "--nodes": str(DEFAULT_NODES),
    "--cpu": OF_THIS_MACHINE,
    "--memory": OF_THIS_MACHINE,
    "--port": "a free one",
    "--config": "none",
    "--leave-running": "off",
    "--log-format": "text",
    "--log-level": "warning",
}


def differences(wanted: argparse.Namespace, pid: int) -> list[str]:
    """Return each given option that the running cluster has otherwise: `--nodes 3 (it has 1)`.

    Empty too if the command line of the process, `pid`, cannot be read.
    """
    running = given_to(pid)
    if running is None:
        return []
    asked = given(wanted, Path.cwd())
    has = {name: running.get(name, text) for name, text in NOT_GIVEN.items()}
    return [f"{name} {text} (it has {has[name]})" for name, text in asked.items() if text != has[name]]


def given(args: argparse.Namespace, directory: Path) -> dict[str, str]:
    """Return the options that were given, in one form per effect. `directory`: in which the path of --config is."""
    levels = ",".join(f"{logger}={level}" if logger else level for logger, level in args.log_level.items())
    texts = {
        "--nodes": str(args.nodes) if args.nodes is not None else "",
        "--cpu": to_text(parse(args.cpu, "cpu"), "cpu") if args.cpu is not None else "",
        "--memory": to_text(parse(args.memory, "memory"), "memory") if args.memory is not None else "",
        "--port": str(args.port) if args.port else "",
        "--config": str((directory / args.config).resolve()) if args.config else "",
        "--leave-running": "on" if args.leave_running else "",
        "--log-format": args.log_format if args.log_format != NOT_GIVEN["--log-format"] else "",
        "--log-level": levels if levels != NOT_GIVEN["--log-level"] else "",
    }
    return {name: text for name, text in texts.items() if text}


def given_to(pid: int) -> dict[str, str] | None:
    """Return the options that a running `sluice up` was given; None if that is another program, or cannot be seen."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="surrogateescape").split("\0")[:-1]
        directory = Path(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return None
    if "up" not in words:
        return None
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):  # of another version
        return given(parser().parse_args(words[words.index("up") :]), directory)
    return None
