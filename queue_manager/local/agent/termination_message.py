"""The message of a container that failed, from the end of its log: `state.terminated.message` in the pod's status.

A kubelet reads the file of terminationMessagePath, and if that is empty and the policy is FallbackToLogsOnError, the
end of the log. A process has no /dev/termination-log of its own here. So a failed container has the end of its log
with that policy, and otherwise one line of it (`last_line`), so that the cause of a failure is in the status.
BEHAVIOUR.md#q114-termination-messages.
"""

from __future__ import annotations

import os
from pathlib import Path

from queue_manager.last_line import TAIL_BYTES, error_line

MAX_BYTES = 2048  # of the log; the limits of a kubelet (kuberuntime MaxContainerTerminationMessageLogLength)
MAX_LINES = 80
FALLBACK = "FallbackToLogsOnError"


def termination_message(log: Path, policy: str) -> str:
    """The message of a container that exited with an error; "" if its log is empty or cannot be read."""
    if policy == FALLBACK:
        return "\n".join(_end_of(log, MAX_BYTES).decode("utf-8", "replace").splitlines()[-MAX_LINES:])
    return error_line(_end_of(log, TAIL_BYTES))[:MAX_BYTES]


def _end_of(log: Path, size: int) -> bytes:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size)
    except OSError:
        return b""
