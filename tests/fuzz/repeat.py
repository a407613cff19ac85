"""Decode saved inputs once, without fuzzing: `python -m tests.fuzz.repeat TARGET FILE...`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz import targets
from tests.fuzz.target import check


def main(arguments: Sequence[str]) -> int:
    """Print for each input whether it is accepted; a failure raises."""
    name, *files = arguments
    target = targets.load(name)
    for file in files:
        print(f"{file}: {'accepted' if check(target, Path(file).read_bytes()) else 'refused'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
