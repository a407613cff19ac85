"""All exit codes of `sluice`, and the one exception that ends a command with a message instead of a traceback.

`exit_meanings` has the texts that describe the codes, for man pages, help and README.md.

Commands that create Jobs (`run`, `submit`) distinguish two failures: EXIT_NEVER if a Job was created and cannot start
unless it or its queue is changed, EXIT_REFUSED if the request was refused and nothing was created. Repeating either
does not help. `run` ends with the exit code of its command if the Job ran; every other end of it has a line that begins
with "sluice run:" on standard error.
"""

from __future__ import annotations

TYPE_CHECKING = False  # avoids the import of typing, which is slow: see `cli.main`
if TYPE_CHECKING:
    from job_controller.model import Key

EXIT_OK = 0
EXIT_UNEXPECTED = 1  # the operation completed with an unexpected result: a Job failed, a time limit was reached
EXIT_NEVER = 2  # a Job can never start; of commands that create nothing: the request is refused, as for an unknown Job
EXIT_ERROR = 3  # the operation is not possible in the current circumstances
EXIT_REFUSED = 4  # the request itself is refused, and nothing was created
# As a shell reports processes that a signal ended.
EXIT_INTERRUPTED = 130  # SIGINT
EXIT_BROKEN_PIPE = 141  # SIGPIPE: the reader of the output exited

CREATING = ("run", "submit")  # commands that end with EXIT_REFUSED


class CommandRefused(Exception):
    """The command cannot be carried out; the text gives the reason and the remedy.

    `missing`: namespace and name of the Job that does not exist in any namespace, if that is the reason. `effect`: what
    that means for the other objects that the command names, printed after the text.
    """

    def __init__(self, message: str, code: int = EXIT_ERROR, *, missing: Key | None = None, effect: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.missing = missing
        self.effect = effect
