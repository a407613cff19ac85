"""The configuration of Sluice: `load(path)` reads a file, `KueueConfig()` is what an empty one means."""

from queue_manager.configuration.document import ConfigurationError, Problem
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.loading import load, loads, own_namespace

__all__ = ["ConfigurationError", "KueueConfig", "Problem", "load", "loads", "own_namespace"]
