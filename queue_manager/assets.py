"""Paths of the shipped files of config/: next to the packages in a checkout, inside queue_manager when installed."""

from __future__ import annotations

from pathlib import Path

import queue_manager

_PACKAGE = Path(queue_manager.__file__).resolve().parent


def config() -> Path:
    """Return the folder that contains crds/, samples/ and kueue_config.yaml."""
    installed = _PACKAGE / "config"
    return installed if installed.is_dir() else _PACKAGE.parent / "config"


def crds() -> Path:
    """Return the folder with one CRD manifest per kind."""
    return config() / "crds"


def samples() -> Path:
    """Return the folder with the sample Jobs that `sluice demo` and the README submit."""
    return config() / "samples"
