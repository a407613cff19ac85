"""Exit codes and the one exception that ends a command with a message instead of a traceback."""

from __future__ import annotations

EXIT_OK = 0
EXIT_UNEXPECTED = 1  # it ended, but not as expected
EXIT_NEVER = 2  # refused for what was asked: asking again will not help
EXIT_ERROR = 3  # it could not be done, as things are


class CommandRefused(Exception):
    """The command cannot do what it was asked; the text says why and what to do."""

    def __init__(self, message: str, code: int = EXIT_ERROR) -> None:
        super().__init__(message)
        self.code = code
