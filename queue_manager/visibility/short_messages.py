"""Shortens reasons and messages of the API for the tables of `ps` and `show`. Pure.

Objects and JSON output keep the API's strings, which other programs parse. Unknown texts are returned unchanged.
The sentence of `sluice explain` is in `dominant_reason` and `pending_sentences`.
"""

from __future__ import annotations

import re
from functools import reduce

from job_controller.reasons import (
    BACKOFF_LIMIT_EXCEEDED,
    COMPLETIONS_REACHED,
    FAILED_INDEXES,
    MAX_FAILED_INDEXES_EXCEEDED,
    POD_FAILURE_POLICY,
)
from queue_manager.api import condition_types, keys, messages, reasons

LAST_ATTEMPT = "last attempt"
NAMES_NO_QUEUE = f"it names no LocalQueue (label {keys.QUEUE_NAME})"
PODS_NOT_READY = "pods not ready"  # the cause, if nothing is known of the pods
NOT_READY = "its pods were not ready in time"
GAVE_UP = reasons.deactivated_due_to(reasons.REQUEUING_LIMIT_EXCEEDED)
RAN_TOO_LONG = "maximum execution time exceeded"

_DEACTIVATED_DUE_TO = f"{messages.DEACTIVATED_MESSAGE} due to "
_PREFIX = re.compile(rf"{messages.COULD_NOT_ASSIGN} \S+: ")
_UNCOVERED = re.compile(r"resource (?P<resource>\S+) unavailable in ClusterQueue")
_UNUSED = re.compile(
    r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), (?P<more>\S+) more needed"
)
_CAPACITY = re.compile(
    r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), previously considered podsets requests "
    r"\((?P<before>[^)]*)\) \+ current podset request \((?P<asked>[^)]*)\) > maximum capacity \((?P<limit>[^)]*)\)"
)
_MISMATCH = re.compile(  # by `flavor_matching.refusal`
    r"untolerated taint \{[^{}]*\} in flavor [^\s,;]+|flavor [^\s,;]+ doesn't match node affinity"
)
_LACKS = (_UNCOVERED, _UNUSED, _CAPACITY, _MISMATCH)
_ENDED_BY_PODS = (BACKOFF_LIMIT_EXCEEDED, FAILED_INDEXES, MAX_FAILED_INDEXES_EXCEEDED, POD_FAILURE_POLICY)
# Reasons of evictions that took the quota back, whatever the pods of the Job did.
TAKEN_BACK = (
    reasons.PREEMPTED,
    reasons.CLUSTER_QUEUE_STOPPED,
    reasons.LOCAL_QUEUE_STOPPED,
    reasons.ADMISSION_CHECK,
)
NEVER = "can never start: "
NEVER_FITS = (reasons.EXCEEDS_MAX_QUOTA, reasons.NO_MATCHING_FLAVOR)  # valid for every Workload of the same shape
_NEVER_ADMITTED = (*NEVER_FITS, reasons.MISCONFIGURED)
_VICTIMS = re.compile(r"Pending the preemption of (?P<count>\d+) workload\(s\)$")
_SHORT = {
    messages.WILL_FIT_MESSAGE: "waits until Workloads that another one has preempted stop",
    messages.OVERLAPPING_TARGETS_MESSAGE: "waits: another one preempts the same Workloads",
    messages.does_not_exist("LocalQueue", ""): f"{reasons.MISCONFIGURED}: {NAMES_NO_QUEUE}",
    messages.KEPT_FOR_HEAD_MESSAGE: "quota is kept for one that is ordered before it",
    messages.KEPT_FOR_FIRST_MESSAGE: "quota is kept for the first one of another queue, which is StrictFIFO",
}


def plain(
    reason: str,
    message: str,
    *,
    attempts: int = 0,
    equivalent: str = "",
    equivalent_reason: str = "",
    preempted_for: str = "",
) -> str:
    """Return one sentence. `equivalent`: a Job with equal requests that was tried, and `equivalent_reason` why it does
    not fit.

    `preempted_for`: of a victim, who needed its quota (`preempted_for.preempted_for`).
    """
    if preempted_for:
        rest = (
            "its pods are being stopped"
            if reason == reasons.PREEMPTED
            else plain(reason, message, attempts=attempts, equivalent=equivalent, equivalent_reason=equivalent_reason)
        )
        return "; ".join(part for part in (f"preempted {preempted_for}", rest) if part)
    if message in _SHORT:
        return _SHORT[message]
    if victims := _VICTIMS.search(message):
        return _waits_for(int(victims["count"]))
    if reason == GAVE_UP:
        return gave_up(attempts)
    if reason.removeprefix(reasons.DEACTIVATED_DUE_TO) == reasons.MAX_EXEC_TIME_EXCEEDED:
        return RAN_TOO_LONG
    if message.startswith(_DEACTIVATED_DUE_TO):
        return message.removeprefix(_DEACTIVATED_DUE_TO)
    if reason == COMPLETIONS_REACHED:
        return ""  # the state is explanation enough
    if reason == reasons.DEACTIVATED and message.startswith(messages.DEACTIVATED_MESSAGE):
        return message.removeprefix(messages.DEACTIVATED_MESSAGE).strip() or "by a user"
    if (reason, message) == (reasons.REACTIVATED, messages.REACTIVATED_MESSAGE):
        return "reactivated by a user"
    if message == messages.EQUIVALENT_MESSAGE:
        return like_another(equivalent, equivalent_reason)
    if reason == reasons.PENDING_EVALUATION and message != messages.PENDING_EVALUATION_MESSAGE:
        return message  # a message of Sluice, already short
    text = quota(reason, message)
    never = NEVER if text and reason in NEVER_FITS else ""
    return f"{never}{text}" if text else ": ".join(part for part in (reason, message) if part)


def like_another(equivalent: str, why: str) -> str:
    """Return the sentence for a Job that is not tried because another one with equal requests does not fit.

    The sentence begins with the cause (`why`). The name of the other Job follows the word "Job", so that a Job called
    "another" cannot be mistaken for a word of the sentence.
    """
    who = f"{f'Job {equivalent}' if equivalent else 'another Job'} with the same requests"
    return f"{why}, like {who}" if why else f"not tried: {who} does not fit"


def _waits_for(victims: int) -> str:
    return f"waits until {victims} preempted {'Workload stops' if victims == 1 else 'Workloads stop'}"


def of_last_attempt(cause: str) -> str:
    """Return the cause of an attempt that is over, marked as such; "" without a cause."""
    return f"{LAST_ATTEMPT}: {cause}" if cause else ""


def cause_first(cause: str, reason: str, message: str, text: str, *, is_over: bool = False) -> str:
    """`exit 3: no such column; gave up after 3 attempts`: the cause of the pods, then what it led to.

    `text`: the sentence about `reason` and `message`, which say less than the cause or repeat it. `is_over`: the cause
    is that of an attempt before, and the Job waits for something else now, which then comes first.
    """
    if (is_over or reason in TAKEN_BACK) and not message.startswith(messages.pods_ready_timeout("")):
        return "; ".join(part for part in (text, of_last_attempt(cause)) if part)
    if says(cause, text):
        return cause
    if not cause or (reason == GAVE_UP and cause == PODS_NOT_READY):
        return f"{NOT_READY}; {text}" if reason == GAVE_UP else text
    if reason in (reasons.WAIT_FOR_START, reasons.WAIT_FOR_RECOVERY):
        return cause
    if message.startswith(messages.pods_ready_timeout("")):
        text = NOT_READY
    elif reason in _ENDED_BY_PODS:
        text = reason
    return "; ".join(part for part in (cause, text.removesuffix(f"; {cause}")) if part)


def says(cause: str, text: str) -> bool:
    """Whether the cause is this text, alone or with more about it in parentheses."""
    return cause == text or cause.startswith(f"{text} (")


def never_starts(no_node: str, reason: str, text: str, obstacle: str = "") -> str:
    """Return why a Job of which no node is large enough for a pod never starts: what its queue says first, if anything.

    `text`: the sentence about `reason`. `obstacle`: what else keeps it from starting, which comes first.
    """
    if no_node in obstacle:
        return obstacle
    if obstacle:
        is_never = obstacle.startswith((NEVER, "cannot start: "))
        return f"{obstacle}; {no_node}" if is_never else f"{NEVER}{no_node}; {obstacle}"
    first = text.removeprefix(NEVER) if reason in _NEVER_ADMITTED else ""
    return f"{NEVER}{'; '.join(part for part in (first, no_node) if part)}"


def gave_up(attempts: int) -> str:
    """Return the sentence for a Workload that was deactivated after its last retry. `attempts`: 0 if unknown."""
    return f"gave up after {attempts} {'attempt' if attempts == 1 else 'attempts'}" if attempts else "gave up"


def quota(reason: str, message: str) -> str:
    """Return the shortage in a message: `needs 1 more cpu (default-flavor)`, `asks 64 cpu, queue limit 4`; else "".

    Flavors that do not match the pods are named if that is the reason (NoMatchingFlavor). For another reason there is a
    flavor that matches, and only what that one lacks is said.
    """
    text = _PREFIX.sub("", message)
    found = sorted((match for kind in _LACKS for match in kind.finditer(text)), key=lambda match: match.start())
    rest = reduce(lambda left, kind: kind.sub("", left), _LACKS, text)
    if rest.strip(",; "):
        return ""
    if reason != reasons.NO_MATCHING_FLAVOR:
        found = [match for match in found if match.re is not _MISMATCH]
    several = len({match["flavor"] for match in found if match.re is _CAPACITY}) > 1
    return "; ".join(_lack(match, several) for match in found)


def _lack(match: re.Match[str], several: bool) -> str:
    if match.re is _MISMATCH:
        return match[0]
    if match.re is _UNCOVERED:
        return f"queue has no quota for {match['resource']}"
    if match.re is _UNUSED:
        return f"needs {match['more']} more {match['resource']} ({match['flavor']})"
    beside = f" beside {match['before']}" if match["before"] != "0" else ""
    flavor = f" ({match['flavor']})" if several else ""
    return f"asks {match['asked']} {match['resource']}{beside}, queue limit {match['limit']}{flavor}"


def event_reason(reason: str) -> str:
    """Return `Evicted` for any EvictedDueTo... reason, since the Event's message gives the cause."""
    return condition_types.EVICTED if reason.startswith(reasons.EVICTED_DUE_TO) else reason
