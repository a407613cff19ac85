"""The configuration of Sluice (KueueConfig): its model, how a file is read, checked, printed and reloaded.

`load(path)` reads a file; `KueueConfig()` is the meaning of an empty one. The models are pydantic's, so importing this
package takes about 0.1 s: commands that read no configuration do not import it.
"""

from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.loading import load, load_or_default, loads, own_namespace
from queue_manager.configuration.yaml_places import ConfigurationError, ConfigurationProblem

__all__ = [
    "ConfigurationError",
    "ConfigurationProblem",
    "KueueConfig",
    "load",
    "load_or_default",
    "loads",
    "own_namespace",
]
