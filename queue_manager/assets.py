"""The files of config/: beside the packages in a checkout, inside queue_manager once installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import queue_manager

# The C loader is five times as fast, where PyYAML was built with it.
YamlLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PACKAGE = Path(queue_manager.__file__).resolve().parent


def config() -> Path:
    """The folder with crds/, samples/ and kueue_config.yaml."""
    installed = _PACKAGE / "config"
    return installed if installed.is_dir() else _PACKAGE.parent / "config"


def crds() -> Path:
    return config() / "crds"


def samples() -> Path:
    return config() / "samples"
