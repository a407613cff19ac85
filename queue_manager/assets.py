"""Paths of the shipped files of config/: next to the packages in a checkout, inside queue_manager when installed."""

from __future__ import annotations

from pathlib import Path

import queue_manager

_PACKAGE = Path(queue_manager.__file__).resolve().parent


def config() -> Path:
    """Return the folder that contains crds/, samples/ and kueue_config.yaml."""
    installed = _PACKAGE / "config"
    return installed if installed.is_dir() else _PACKAGE.parent / "config"


def shown(file: Path) -> str:
    """Return the path as a user of this directory types it: relative if the file is below it."""
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


def reasons() -> Path:
    """Return the file with a page for each reason why a Job does not run."""
    return config() / "REASONS.md"


def crds() -> Path:
    """Return the folder with one CRD manifest per kind."""
    return config() / "crds"


def samples() -> Path:
    """Return the folder with the sample Jobs that `sluice demo` and the README submit."""
    return config() / "samples"
