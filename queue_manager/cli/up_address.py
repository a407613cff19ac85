"""How to reach the cluster of a data directory, and which directory a command means."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit

from queue_manager.cli.connection import default_data_dir
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.engine import kubeconfig
from queue_manager.local.storage.data_directory import KUBECONFIG


def how_to_reach(data_dir: Path) -> str:
    """Return the address of the cluster that runs in this data directory, and how commands find it.

    "" if the address cannot be read.
    """
    address = served_address(data_dir)
    return f"{address} (export KUBECONFIG={quote(str(data_dir / KUBECONFIG))})" if address else ""


def served_address(data_dir: Path) -> str:
    """Return `, which serves URL` of the cluster that runs in this data directory, or "" if that cannot be read."""
    try:
        url = urlsplit(kubeconfig.load(data_dir / KUBECONFIG).server)
    except (OSError, ValueError):
        return ""
    return f", which serves {url.scheme}://{url.netloc.rpartition('@')[2]}"


def directory(chosen: str | None) -> Path:
    """Return the data directory of the cluster. Raises CommandRefused if the path is not a directory."""
    path = expanded(chosen) if chosen else default_data_dir()
    if path.exists() and not path.is_dir():
        raise CommandRefused(f"--data-dir {path}: not a directory", EXIT_NEVER)
    return path


def expanded(path: str) -> Path:
    """Return a path with `~` expanded."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise CommandRefused(f"{path}: {error}") from error
