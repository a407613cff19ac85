"""What the exit codes of `exit_codes` mean, in general and for single commands. Pure.

The man pages, the help of commands and README.md print these texts, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping

from queue_manager.cli.exit_codes import (
    CREATING,
    EXIT_BROKEN_PIPE,
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_NEVER,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_UNEXPECTED,
)

OTHERS = "others"  # the codes that are not Sluice's own
GENERAL: Mapping[int | str, str] = {
    EXIT_OK: "success",
    EXIT_UNEXPECTED: "not the wanted result, such as a failed Job",
    EXIT_NEVER: "a Job can never start, or the request is wrong, such as an unknown Job",
    EXIT_ERROR: "not possible now, such as without connection",
    EXIT_REFUSED: "refused, and nothing was created (`run`, `submit`)",
    EXIT_INTERRUPTED: "interrupted with Ctrl-C",
    EXIT_BROKEN_PIPE: "the reader of the output has exited",
    OTHERS: "of `run`: the exit code of the command that ran",
}
_WAITED = "one failed, was stopped or deleted, or the time is up"
_CREATING: Mapping[int | str, str] = {
    EXIT_NEVER: "a Job was created, and can never start as things are",
    EXIT_REFUSED: "refused, and nothing was created",
}
OF_COMMANDS: Mapping[str, Mapping[int | str, str]] = {
    "run": {
        EXIT_OK: "the command succeeded",
        EXIT_UNEXPECTED: "the Job was stopped (by waitForPodsReady before its retries are used up, or by a user) or "
        "deleted, or the command ended with 1",
        OTHERS: "the exit code of the command that ran, of several pods the highest; 127 or 126 if no such program "
        "exists or it cannot be executed",
        **_CREATING,
    },
    "submit": {
        EXIT_OK: "all were created; with --wait, all succeeded",
        EXIT_UNEXPECTED: "with --wait, one failed, was stopped or deleted, or the time is up",
        **_CREATING,
    },
    "wait": {EXIT_OK: "all have", EXIT_UNEXPECTED: _WAITED, EXIT_NEVER: "one never can, or is unknown"},
    "explain": {
        EXIT_OK: "the Job runs, has ended, waits or is held",
        EXIT_UNEXPECTED: "a controller does not do its part (FAULT)",
        EXIT_NEVER: "the Job can never start as things are (NEVER), or is unknown",
    },
    "logs": {
        EXIT_UNEXPECTED: "there is no log; with --follow, the Job was stopped",
        EXIT_NEVER: "the Job is unknown or has no such index; with --follow, it can never start",
    },
    "cancel": {EXIT_UNEXPECTED: "the time is up"},
    "doctor": {
        EXIT_OK: "nothing found",
        EXIT_UNEXPECTED: "warnings",
        EXIT_NEVER: "errors",
        EXIT_ERROR: "the cluster cannot be read",
    },
    "manager": {
        EXIT_NEVER: "the KueueConfig, the cluster objects or an option is wrong",
        EXIT_ERROR: "it cannot start now, or has failed",
    },
    "check-config": {EXIT_NEVER: "the file cannot be read, or has mistakes"},
    "up": {
        EXIT_UNEXPECTED: "with --detach, not ready when the time of --wait is up",
        EXIT_ERROR: "it cannot start now, or a cluster with other options runs already",
    },
    "upgrade": {
        EXIT_OK: "nothing would change",
        EXIT_UNEXPECTED: "something would change",
        EXIT_NEVER: "a change conflicts, or is refused",
    },
    "import": {
        EXIT_UNEXPECTED: "a Job that a rule selects stays, or would stay, outside of its queue",
        EXIT_NEVER: "the request is wrong, such as an unknown namespace",
    },
    "demo": {EXIT_UNEXPECTED: "a Job did not end as expected"},
}


def exit_status(command: str) -> list[tuple[str, str]]:
    """Return the exit codes of a command, or of `sluice` for "", with what they mean."""
    own = OF_COMMANDS.get(command, {})
    return [(str(code), own.get(code, text)) for code, text in GENERAL.items() if _has(command, code)]


def exit_sentence(command: str = "") -> str:
    """Return these exit codes as one sentence; for a single command without signals, which end all commands alike."""
    left_out = (str(EXIT_INTERRUPTED), str(EXIT_BROKEN_PIPE)) if command else ()
    parts = [f"{code}: {text}" for code, text in exit_status(command) if code not in left_out]
    return f"Exit code {'; '.join(parts)}."


def _has(command: str, code: int | str) -> bool:
    if code == EXIT_REFUSED:
        return command in ("", *CREATING)
    return code != OTHERS or command in ("", "run")
