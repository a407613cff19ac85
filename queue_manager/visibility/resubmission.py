"""The command that creates a Job again once it has been changed. Pure.

A Job of `sluice run` has no file: its options and its command are typed again.
"""

from __future__ import annotations

from job_controller.model import Job, Key
from queue_manager.api import keys

CREATED_BY_RUN = "run"  # value of the annotation keys.CREATED_BY
SUBMIT_AGAIN = "sluice submit --replace -f FILE"


def resubmission(job: Job | None, default_ns: str = "default") -> str:
    """Return the command that replaces the Job. `default_ns`: the default namespace, which is left out."""
    if job is None or job.metadata.annotations.get(keys.CREATED_BY) != CREATED_BY_RUN:
        return SUBMIT_AGAIN
    return f"sluice run --replace --name {_name(job.metadata.key, default_ns)} OPTIONS -- COMMAND"


def _name(key: Key, default_ns: str) -> str:
    return key.name if key.namespace == default_ns else f"{key.name} -n {key.namespace}"
