"""Jobs that do not run because the API server refuses what the queue manager writes about them, or their pods. Pure.

The manager records the server's answer in an Event (QueueingRefused) of the Workload, or of the Job if that gets none.
The Event counts while the manager repeats it (`lifecycle.refused_write_events`), unless a condition of the Workload
became true later, such as QuotaReserved: that write succeeded. A condition that has become false says nothing: why the
Workload is pending may be written while its admission is refused. BEHAVIOUR.md#q246-writes-that-the-api-server-refuses.

`refused_pods` reads why pods are refused. A Job that holds quota without pods is a fault, too: it keeps its quota until
its deadline. BEHAVIOUR.md#q249-pods-that-the-api-server-refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from job_controller.model import Job
from job_controller.pod_facts import LONG_AGO
from queue_manager.api import event_reasons, reasons
from queue_manager.api.events import Event
from queue_manager.api.types import Workload
from queue_manager.lifecycle import refused_pods
from queue_manager.lifecycle.refused_write_events import counts
from queue_manager.visibility import reason_codes
from queue_manager.visibility.explain_record import Explanation
from queue_manager.visibility.job_states import JobState
from queue_manager.visibility.reason_codes import ReasonClass, code
from queue_manager.visibility.reason_with_sentence import with_besides

AWAITED = (JobState.PENDING, JobState.RESERVED)  # states that only a write of the manager ends
_PREFIX = re.compile(r"Cannot be (?:written|queued): ")
_POLICY = re.compile(r"ValidatingAdmissionPolicy '([^']+)'")
_WEBHOOK = re.compile(r'admission webhook "([^"]+)" denied')
_QUOTA = re.compile(r"exceeded quota: ([^,\s]+)")
_USER = re.compile(r'User "([^"]+)" cannot ')
WRITES, PODS = "what the queue manager writes", "its pods"  # must be allowed


class Remedy(NamedTuple):
    """Who must allow a write, as what must change, and the command that shows why it is refused.

    `of_admins`: whether a rule refuses it that holds for many Jobs.
    """

    change: str
    command: str
    of_admins: bool = True


def newest_refusal(job: Job | None, workload: Workload | None, events: Iterable[Event], now: datetime) -> Event | None:
    """Return the newest Event about a write for this Job that the API server still refuses; None without one."""
    uids = {thing.metadata.uid for thing in (job, workload) if thing is not None}
    since = _last_write(workload)
    found = [
        event
        for event in events
        if event.reason == event_reasons.QUEUEING_REFUSED and event.involved_object.uid in uids
        if event.last is not None and event.last >= since and counts(event.last, now)
    ]
    return max(found, key=lambda event: event.sort_key, default=None)


def _last_write(workload: Workload | None) -> datetime:
    """When the Workload was created, or a condition of it became true, if that was later.

    A rejected write is retried after a second at the soonest, so an Event of the same second is about a later write.
    """
    if workload is None:
        return LONG_AGO
    times = [condition.last_transition_time for condition in workload.status.conditions if condition.is_true]
    return max((at for at in (workload.metadata.creation_timestamp, *times) if at is not None), default=LONG_AGO)


def answer(event: Event) -> str:
    """Return the answer of the API server, from an Event of a manager."""
    return _PREFIX.sub("", event.message, count=1)


def remedy(event: Event, job: str) -> Remedy:
    """Return who must allow a write that the API server has refused. `job`: as argument of a command."""
    return remedy_of(event.message, event.involved_object.namespace, WRITES, job)


def remedy_of(text: str, namespace: str, what: str, job: str) -> Remedy:
    """Return who must allow `what`, which the API server has refused in this namespace with this answer."""
    if found := _POLICY.search(text):
        change = f"an admin has ValidatingAdmissionPolicy {found[1]}, or its binding, allow {what}"
        return Remedy(change, f"kubectl get validatingadmissionpolicy {found[1]} -o yaml")
    if found := _WEBHOOK.search(text):
        change = f"an admin has the webhook {found[1]} allow {what}"
        return Remedy(change, "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations")
    if found := _QUOTA.search(text):
        change = (
            f"ResourceQuota {found[1]} of namespace {namespace} has room: an admin raises it, or objects are deleted"
        )
        return Remedy(change, f"kubectl describe resourcequota {found[1]} -n {namespace}")
    if found := _USER.search(text):
        change = f"an admin grants {found[1]} this right"
        return Remedy(change, f"kubectl auth can-i --list --as {found[1]} -n {namespace}")
    return Remedy("what the API server names is corrected", f"sluice show {job}", of_admins=False)


def with_refusal(found: Explanation, event: Event, job: str) -> Explanation:
    """Return the explanation of a Job whose write is refused: a fault, whatever else it waits for.

    Its own sentence follows if it waits for something that an allowed write does not change.
    """
    needed = remedy(event, job)
    sentence = f"The API server refuses {WRITES} about it: {answer(event).rstrip('.')}."
    waits = found.code.startswith(ReasonClass.WAIT) and found.code != code(reasons.PENDING_EVALUATION)
    return structs.replace(
        found,
        code=code(reason_codes.QUEUEING_REFUSED),
        sentence=f"{sentence} {found.sentence}" if waits else sentence,
        changes=[needed.change, *(found.changes if waits else ())],
        next_command=needed.command,
        starts_by=None,
    )


def with_refused_pods(found: Explanation, event: Event, job: str) -> Explanation:
    """Return the explanation of a Job that holds quota without pods. `job`: as argument of a command.

    `found`: without the refusal; the reason why the Job can never start, if its pods fit no node either.
    """
    needed = remedy_of(refused_pods.answer(event), event.involved_object.namespace, PODS, job)
    if found.code.startswith(ReasonClass.NEVER):  # its pods would find no node either
        both = with_besides(found.sentence, refused_pods.refusal_text(event).rstrip("."))
        return structs.replace(found, sentence=both, changes=[f"{each}, and {needed.change}" for each in found.changes])
    return structs.replace(
        found,
        code=code(reason_codes.PODS_REFUSED),
        reason=reason_codes.PODS_REFUSED,
        sentence=f"It holds its quota, but {refused_pods.refusal_text(event).rstrip('.')}.",
        changes=[needed.change],
        next_command=needed.command,
    )
