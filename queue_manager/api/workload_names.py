"""The name of the Workload of a Job, and the way back from that name to the Job."""

from __future__ import annotations

import hashlib

MAX_NAME = 253
HASH_LENGTH = 5
PREFIX = "job-"


def workload_name(job_name: str, uid: str) -> str:
    """`job-<name>-<5 hex>`; the hash tells two Jobs of one name apart."""
    return f"{f'{PREFIX}{job_name}'[: MAX_NAME - HASH_LENGTH - 1]}-{_hash(job_name, uid)}"


def is_named_for(workload_name: str, job_name: str, uid: str) -> bool:
    """Whether the name is that of this Job's Workload, here or in Kueue, which may cut the Job's name shorter."""
    return workload_name.endswith(f"-{_hash(job_name, uid)}")


def job_name(workload_name: str, uid: str) -> str:
    """The name of the Job with this UID for which the Workload was named; empty if the name does not say."""
    name = workload_name.removeprefix(PREFIX)[: -HASH_LENGTH - 1]
    return name if is_named_for(workload_name, name, uid) else ""


def _hash(job_name: str, uid: str) -> str:
    digest = hashlib.sha1(f"Job\nbatch\n{job_name}\n{uid}".encode(), usedforsecurity=False).hexdigest()
    return digest[:HASH_LENGTH]
