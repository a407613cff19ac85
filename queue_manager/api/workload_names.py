"""The name of the Workload of a Job, and the Job's name from that of the Workload. Kueue: GetWorkloadNameForOwner in
pkg/controller/jobframework.
"""

from __future__ import annotations

import hashlib

MAX_NAME = 253  # characters
HASH_LENGTH = 5  # hex digits
PREFIX = "job-"


def workload_name(job_name: str, uid: str) -> str:
    """`job-<name>-<5 hex digits>`; the hash distinguishes two Jobs of one name."""
    return f"{f'{PREFIX}{job_name}'[: MAX_NAME - HASH_LENGTH - 1]}-{_hash(job_name, uid)}"


def is_named_for(workload_name: str, job_name: str, uid: str) -> bool:
    """Whether this is the name of the Job's Workload, in Sluice or in Kueue, which may truncate the Job's name more."""
    return workload_name.endswith(f"-{_hash(job_name, uid)}")


def job_name(workload_name: str, uid: str) -> str:
    """The name of the Job with this UID, from the name of its Workload; "" if that is truncated or not of this form."""
    name = workload_name.removeprefix(PREFIX)[: -HASH_LENGTH - 1]
    return name if is_named_for(workload_name, name, uid) else ""


def _hash(job_name: str, uid: str) -> str:
    digest = hashlib.sha1(f"Job\nbatch\n{job_name}\n{uid}".encode(), usedforsecurity=False).hexdigest()
    return digest[:HASH_LENGTH]
