"""The failed indexes that ended a Job, in the message of its step Finished, and the pods of these. Pure.

The step has them in place of the message of the API (`Job has failed indexes`), which says no more than its reason. A
pod is recorded without its index, which its name has: the Job controller names a pod `JOB-INDEX-xxxxx`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from job_controller.completion_indexes import stored_failed
from job_controller.index_intervals import parse_intervals
from job_controller.index_set import IndexSet
from job_controller.model import Job
from job_controller.pod_facts import INT32_MAX
from queue_manager.accounting.record_types import PodRecord, StepKind, StepRecord
from queue_manager.lifecycle.pod_causes import ENDED_BY_INDEXES

MAX_TEXT = 400  # characters of the indexes; of more, those that follow are left out
_MESSAGE = re.compile(r"index(?:es)? (?P<indexes>[\d,-]+)(?: and more)? failed")
_NAME = re.compile(r"-(?P<index>\d{1,9})-[a-z0-9]{5}$")


def failed_indexes_message(job: Job, reason: str) -> str:
    """`index 2 failed`, `indexes 1,4-6 failed`, if they ended the Job for this reason; else ""."""
    failed = stored_failed(job)
    if reason not in ENDED_BY_INDEXES or not failed:
        return ""
    known = failed.text
    if len(known) > MAX_TEXT:
        known = f"{known[:MAX_TEXT].rpartition(',')[0]} and more"
    return f"{'index' if len(failed) == 1 else 'indexes'} {known} failed"


def recorded_indexes(end: StepRecord | None) -> IndexSet | None:
    """The failed indexes that a step Finished names; None without any, and of an older Sluice."""
    is_end = end is not None and end.kind is StepKind.FINISHED and end.reason in ENDED_BY_INDEXES
    found = _MESSAGE.fullmatch(end.message) if end is not None and is_end else None
    return IndexSet(parse_intervals(found["indexes"], INT32_MAX)) if found is not None else None


def pods_of_indexes(pods: Iterable[PodRecord], indexes: IndexSet) -> list[PodRecord]:
    """The pods of an Indexed Job that are of these indexes, by their names."""
    return [pod for pod in pods if (name := _NAME.search(pod.name)) and int(name["index"]) in indexes]
