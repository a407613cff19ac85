"""The targets by name. Each is made when it is needed: some start an API server first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from tests.fuzz.target import Target

_MODULES: Mapping[str, tuple[str, ...]] = {
    "objects": ("wire-types", "models", "watch-lines", "annotations", "protobuf"),
    "files": ("config", "kubeconfig", "yaml"),
    "texts": ("scalars", "selectors", "cel"),
    "reviews": ("admission-review", "conversion-review", "access-review", "certificates"),
    "requests": ("requests", "patches"),
    "commands": ("exec-credential", "import-rules", "cluster-objects", "api-responses", "settings", "undo-file"),
}
NAMES = tuple(name for names in _MODULES.values() for name in names)


def import_all() -> None:
    """Import the modules of all targets, and with them what they decode with."""
    for module in _MODULES:
        import_module(f"tests.fuzz.targets.{module}")


def load(name: str) -> Target:
    """Make a target. Raises KeyError if it does not exist."""
    module = {name: module for module, names in _MODULES.items() for name in names}[name]
    makers: Mapping[str, Callable[[], Target]] = import_module(f"tests.fuzz.targets.{module}").TARGETS
    return makers[name]()
