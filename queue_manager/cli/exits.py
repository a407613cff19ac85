"""Exit codes and the one exception that ends a command with a message instead of a traceback."""

from __future__ import annotations

EXIT_OK = 0
EXIT_UNEXPECTED = 1  # the operation completed with an unexpected result
EXIT_NEVER = 2  # the request itself is refused: repeating it does not help
EXIT_ERROR = 3  # the operation is not possible in the current circumstances


class CommandRefused(Exception):
    """The command cannot be carried out; the text gives the reason and the remedy."""

    def __init__(self, message: str, code: int = EXIT_ERROR) -> None:
        super().__init__(message)
        self.code = code
