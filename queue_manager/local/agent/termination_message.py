"""The message of a container that failed, from the end of its log: `state.terminated.message` in the pod's status.

A kubelet reads the file of terminationMessagePath, and if that is empty and the policy is FallbackToLogsOnError, the
end of the log. A process has no /dev/termination-log of its own here. So a failed container has the end of its log
with that policy, and otherwise one line of its standard error (`last_line`), so that the cause of a failure is in the
status. BEHAVIOUR.md#q114-termination-messages.
"""

from __future__ import annotations

import os
from pathlib import Path

from queue_manager.last_line import TAIL_BYTES, error_line, stderr_line
from queue_manager.local.agent.pod_files import RunFiles

MAX_BYTES = 2048  # of the log; the limits of a kubelet (kuberuntime MaxContainerTerminationMessageLogLength)
MAX_LINES = 80
FALLBACK = "FallbackToLogsOnError"


def termination_message(run: RunFiles, policy: str, exit_code: int) -> str:
    """The message of a container that exited with an error; "" if it printed nothing, or that cannot be read.

    The line is that of its log if standard error has none.
    """
    if policy == FALLBACK:
        return "\n".join(_end_of(run.log, MAX_BYTES).decode("utf-8", "replace").splitlines()[-MAX_LINES:])
    line = stderr_line(_end_of(run.errors, TAIL_BYTES), exit_code) or error_line(_end_of(run.log, TAIL_BYTES))
    return line[:MAX_BYTES]


def _end_of(log: Path, size: int) -> bytes:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size)
    except OSError:
        return b""
