"""The failed indexes that ended a Job, in the message of its step Finished, and the pods of these. Pure.

The step has them in place of the message of the API (`Job has failed indexes`), which says no more than its reason. A
pod is recorded without its index, which its name has: the Job controller names a pod `JOB-INDEX-xxxxx`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from job_controller.completion_indexes import stored_failed
from job_controller.index_intervals import parse_intervals
from job_controller.index_set import IndexSet
from job_controller.model import Job
from job_controller.pod_facts import INT32_MAX
from queue_manager.accounting.record_types import PodRecord, StepKind, StepRecord
from queue_manager.lifecycle.pod_causes import ENDED_BY_INDEXES
from queue_manager.visibility.job_causes import failed_text

MAX_CHARACTERS = 400  # of the indexes; of more, only the number of those that follow is kept
_MESSAGE = re.compile(r"index(?:es)? (?P<indexes>[\d,-]+)(?: and (?P<more>\d{1,9}) more)? failed")
_NAME = re.compile(r"-(?P<index>\d{1,9})-[a-z0-9]{5}$")


class RecordedIndexes(NamedTuple):
    """`known`: the failed indexes that a step names. `more`: the number of those that it does not name."""

    known: IndexSet
    more: int = 0

    @property
    def text(self) -> str:
        """The words of `sluice ps`: `index 2 failed`."""
        return f"{len(self.known) + self.more} indexes failed" if self.more else failed_text(self.known)


def failed_indexes_message(job: Job, reason: str) -> str:
    """`index 2 failed`, `indexes 1,4-6 failed`, if they ended the Job for this reason; else ""."""
    failed = stored_failed(job)
    if reason not in ENDED_BY_INDEXES or not failed:
        return ""
    known = failed.text
    if len(known) > MAX_CHARACTERS:
        known = known[:MAX_CHARACTERS].rpartition(",")[0]
        known = f"{known} and {len(failed) - len(_indexes(known))} more"
    return f"{'index' if len(failed) == 1 else 'indexes'} {known} failed"


def recorded_indexes(end: StepRecord | None) -> RecordedIndexes | None:
    """The failed indexes that a step Finished names; None without any, and of an older Sluice."""
    is_end = end is not None and end.kind is StepKind.FINISHED and end.reason in ENDED_BY_INDEXES
    found = _MESSAGE.fullmatch(end.message) if end is not None and is_end else None
    return RecordedIndexes(_indexes(found["indexes"]), int(found["more"] or 0)) if found is not None else None


def _indexes(text: str) -> IndexSet:
    return IndexSet(parse_intervals(text, INT32_MAX))


def pods_of_indexes(pods: Iterable[PodRecord], indexes: IndexSet) -> list[PodRecord]:
    """The pods of an Indexed Job that are of these indexes, by their names."""
    return [pod for pod in pods if (name := _NAME.search(pod.name)) and int(name["index"]) in indexes]
