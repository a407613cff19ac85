"""Why the API server refuses to create the pods of a Job, from Events. Pure.

It may be a quota of the namespace, a policy, or a priority class that does not exist.

The Job controller records each answer in an Event (FailedCreate) of the Job, and tries again; no status has it. The
newest one counts for a Job without pods, unless it is older than the start of this attempt. Events expire, by default
after an hour. BEHAVIOUR.md#q249-pods-that-the-api-server-refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from job_controller.conditions import finished
from job_controller.event_reasons import CREATE_FAILED
from job_controller.model import Job
from queue_manager.api.events import Event

NO_PODS = "no pod can be created: "
_PREFIX = re.compile(r"(?:\(combined from similar events\): )?Error creating: ")
_NO_CLASS = re.compile(r"^no PriorityClass with name (?P<name>\S+) was found$")
_OBJECT = re.compile(r'^\S+ "[^"]*" (?:is )?(?:forbidden|invalid): ')


def newest_refusal(job: Job | None, events: Iterable[Event]) -> Event | None:
    """Return the newest Event about a pod of this Job that the API server has refused; None without one that counts."""
    if job is None or job.status.active or finished(job.status) is not None:
        return None
    start = job.status.start_time  # of this attempt; None for a suspended Job
    found = [
        event
        for event in events
        if event.reason == CREATE_FAILED and event.involved_object.uid == job.metadata.uid
        if start is None or (event.last is not None and event.last >= start)
    ]
    return max(found, key=lambda event: event.sort_key, default=None)


def refusal_text(event: Event) -> str:
    """Return the cause in such an Event: `no pod can be created: exceeded quota: team, requested: pods=1`.

    That a PriorityClass does not exist is said in the words of those who look for it before the pods are created.
    """
    return NO_PODS + _NO_CLASS.sub(r"PriorityClass \g<name> does not exist", without_object(answer(event)))


def answer(event: Event) -> str:
    """Return the answer of the API server in such an Event."""
    return _PREFIX.sub("", event.message, count=1)


def without_object(text: str) -> str:
    """Return an answer of the API server without the name of the object: equal for all objects with one cause."""
    return _OBJECT.sub("", text, count=1)
