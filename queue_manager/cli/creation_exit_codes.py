"""Exit codes of refusals in commands that create Jobs. Not in `exit_codes`, which `main` imports before all else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_REFUSED, CommandRefused


@contextmanager
def nothing_created() -> Iterator[None]:
    """Change the code of refusals in the block from EXIT_NEVER to EXIT_REFUSED: they precede every creation."""
    try:
        yield
    except CommandRefused as refusal:
        if refusal.code == EXIT_NEVER:
            refusal.code = EXIT_REFUSED
        raise
