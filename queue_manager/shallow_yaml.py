"""YAML from outside, no deeper than anything that is meant seriously.

The C parser calls itself for each level: forty kilobytes of brackets would crash the process. So the depth is watched
while it reads.
"""

from __future__ import annotations

from typing import Any

import yaml

# A safe loader for files that we trust. That in C is five times as fast, where PyYAML was built with it.
FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DEPTH = 100  # levels
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


class ShallowLoader(FastLoader):  # type: ignore[misc]
    """A safe loader for anything else. Raises yaml.MarkedYAMLError TOO_DEEP."""

    _depth = 0

    def descend_resolver(self, parent: yaml.Node | None, index: Any) -> None:
        """A node begins."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=TOO_DEEP, problem_mark=parent.start_mark if parent is not None else None)

    def ascend_resolver(self) -> None:
        """A node ends."""
        self._depth -= 1
