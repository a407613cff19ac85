"""The files of config/: beside the packages in a checkout, inside queue_manager once installed."""

from __future__ import annotations

from pathlib import Path

import queue_manager

_PACKAGE = Path(queue_manager.__file__).resolve().parent


def config() -> Path:
    """The folder with crds/, samples/ and kueue_config.yaml."""
    installed = _PACKAGE / "config"
    return installed if installed.is_dir() else _PACKAGE.parent / "config"


def crds() -> Path:
    """A file for each kind of the queue."""
    return config() / "crds"


def samples() -> Path:
    """What `sluice demo` and the README submit."""
    return config() / "samples"
