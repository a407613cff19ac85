"""The sentence of `sluice explain` for each decision of the scheduler on a pending Workload. Pure.

`dominant_reason` has those for every other state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from job_controller.model import Key
from queue_manager.api import keys, messages, reasons
from queue_manager.scheduling.admission_evidence import FlavorEvidence, PreemptionVerdict
from queue_manager.scheduling.amounts import text
from queue_manager.scheduling.cycle import Preempt
from queue_manager.scheduling.preemption_advice import HIGHEST_PRIORITY, NO_WAYS
from queue_manager.scheduling.workload_info import PODS
from queue_manager.visibility import reason_codes
from queue_manager.visibility.deactivated_jobs import job_name
from queue_manager.visibility.explanation_rows import lacks_by_group, nearest
from queue_manager.visibility.reason_with_sentence import Finding, sentence_of
from queue_manager.visibility.released_quota_times import TAKEN
from queue_manager.visibility.scheduler_judgement import (
    NEVER_REASONS,
    ClusterObjects,
    Judgement,
    KeptForHead,
    victims_of,
)

MANAGER_RUNS = "`sluice manager` or `sluice up` runs"
IF_IT_LASTS = f"{MANAGER_RUNS}, if this does not change within seconds"
ANOTHERS = "which is of another namespace"
LESS_REQUESTED = "it requests"
_OF_QUOTA = (reasons.WAITING_FOR_QUOTA, reasons.EXCEEDS_MAX_QUOTA)
ORDERED_BEFORE = "which is ordered before it"
LESS_WITH_VICTIMS = ", or less if it can then preempt the rest"
PROTECTION_ENDS = "the minimum runtime that protects a running Workload ends"
FEWER_PODS = f"its annotation {keys.MIN_PARALLELISM} is"
OF_AUTHOR = (LESS_REQUESTED, FEWER_PODS, "it does not request")  # how a change of the Job itself begins
REASON_TEXTS = {
    reasons.WAITING_FOR_QUOTA: "The free quota does not suffice for it now.",
    reasons.WAITING_FOR_PREEMPTED: "Other Workloads are being stopped to make room for it.",
    reasons.WAITING_FOR_PODS_READY: "Nothing is admitted before the pods of all Workloads that hold quota are ready "
    "(blockAdmission).",
    reasons.EXCEEDS_MAX_QUOTA: "It requests more than its queue can ever use.",
    reasons.NO_MATCHING_FLAVOR: "No flavor of its queue provides what it requests.",
    reasons.MISCONFIGURED: "Its queue refuses it as it is.",
}


def decided(
    found: Judgement, argument: str, objects: ClusterObjects, may_name: Callable[[str], bool] = lambda namespace: True
) -> Finding:
    """The dominant reason of a Workload that the scheduler has tried, or that waits behind one that it has tried.

    `argument`: the Job as an argument of `sluice`. `may_name`: of which namespaces the reader may know the Jobs.
    """
    text_of = _TEXTS.get(found.reason)
    if text_of is None and found.head is None:
        sentence = "It fits: the scheduler is about to admit it."
        return _finding(found, reasons.PENDING_EVALUATION, sentence, (IF_IT_LASTS,), f"sluice explain {argument}")
    if found.head is not None and found.reason not in _DESPITE_A_HEAD:
        name = _head_name(found.head, objects) if may_name(found.head.namespace) else ""
        return _behind(found, name, argument)
    if found.kept_for is not None:
        name = _head_name(found.kept_for.head, objects) if may_name(found.kept_for.head.namespace) else ""
        return (_kept_for_first if found.kept_for.blocks else _kept_for_head)(found, found.kept_for, name)
    if text_of is None:
        return _finding(found, found.reason, sentence_of(found.message), (), f"sluice show {argument}")
    sentence, changes = text_of(found)
    command = f"sluice cancel {argument}" if found.reason in NEVER_REASONS else f"sluice ps -q cq/{found.cluster_queue}"
    return _finding(found, found.reason, sentence, changes, command)


def _finding(found: Judgement, reason: str, sentence: str, changes: Iterable[str], command: str) -> Finding:
    return Finding(reason, sentence, tuple(changes), command, found.message, found)


def _head_name(head: Key, objects: ClusterObjects) -> str:
    """Return namespace and name of the Job that is first in its queue."""
    workload = next((w for w in objects.workloads if w.metadata.key == head), None)
    return str(Key(head.namespace, job_name(workload))) if workload is not None else str(head)


def _behind(found: Judgement, head: str, argument: str) -> Finding:
    """`head`: the Job that is first in the queue; "" if the reader may not know it."""
    queue, does = f"ClusterQueue {found.cluster_queue}", "can never be admitted" if found.head_is_never else "waits"
    sentence = f"{queue} is StrictFIFO, and its first Workload, {head or ANOTHERS}, {does}."
    pass_by = f"an admin lets others pass such a Workload (annotation {keys.PASS_BY}=true of {queue})"
    changes = (
        f"{head or 'that Workload'} is admitted, or leaves the queue",
        *([pass_by] if found.head_is_never else []),
    )
    command = f"sluice explain {head}" if head else f"sluice show {argument}"
    return _finding(found, reason_codes.BEHIND_HEAD, sentence, changes, command)


def _kept_for_first(found: Judgement, kept_for: KeptForHead, head: str) -> Finding:
    """`head`: the Job that is first in a StrictFIFO queue and withholds quota; "" if the reader may not know it."""
    whose = head or "that Workload"
    first = f"{head or f'a Workload {ANOTHERS}'}, the first of StrictFIFO ClusterQueue {kept_for.cluster_queue}"
    lacks = bool(nearest(_rows(found), found.reason))
    sentence = f"{_what_is_kept(found, freed=lacks)} is kept for {first}."
    changes = [f"{whose} is admitted, or leaves the queue, and enough quota is free then"]
    changes += _both_fit(kept_for, whose)
    if kept_for.yields:
        changes.append(f"it gets a higher priority than {whose}")
    command = f"sluice explain {head}" if head else f"sluice ps -q cq/{found.cluster_queue}"
    return _finding(found, found.reason, sentence, changes, command)


def _what_is_kept(found: Judgement, *, freed: bool) -> str:
    """`freed`: by a preemption, since not enough is free."""
    what = "What preemption could free for it in" if freed else "The free quota of"
    return f"{what} ClusterQueue {found.cluster_queue}"


def _both_fit(kept_for: KeptForHead, whose: str) -> list[str]:
    """The condition that enough is released for both; none if the quota is not enough for both at one time."""
    return [f"running Workloads release so much that {whose} and it both fit"] if kept_for.both_fit else []


def _kept_for_head(found: Judgement, kept_for: KeptForHead, head: str) -> Finding:
    """`head`: the Job for which backfilling keeps the quota; "" if the reader may not know it."""
    whose = head or "that Workload"
    kept = f"kept for {head or f'a Workload {ANOTHERS}'}, {ORDERED_BEFORE} (backfill)"
    lacking = nearest(_rows(found), found.reason)
    if found.message != messages.KEPT_FOR_HEAD_MESSAGE:
        sentence = f"{_requests_more(found, lacking)}; what is released is {kept}."
    else:
        sentence = f"{_what_is_kept(found, freed=bool(lacking))} is {kept}."
    changes = [f"{whose} is admitted, or leaves the queue, and enough quota is free then"]
    if lacking:
        changes += _both_fit(kept_for, whose)
    if kept_for.cluster_queue != found.cluster_queue:
        changes += _own_released(found, lacking)
    if found.evidence is not None and found.evidence.ways.protected_until is not None:
        changes.append(PROTECTION_ENDS)
    longest, most = found.info.longest_run if found.info is not None else None, kept_for.most_seconds
    if most or (most is None and longest is None):
        at_most = f" of at most {most} s" if most else ""
        when_free = f", and {_release(found, lacking)}" if lacking else ""
        changes.append(f"it declares a maximum execution time{at_most} ({keys.MAX_EXEC_TIME}){when_free}")
    if (not lacking or found.message == messages.KEPT_FOR_HEAD_MESSAGE) and not found.by_usage:
        changes.append(f"it gets a higher priority than {whose}")
    elif found.evidence is not None and found.evidence.ways.priority is not None:
        changes.append("it gets a higher priority")
    command = f"sluice explain {head}" if head else f"sluice ps -q cq/{found.cluster_queue}"
    return _finding(found, found.reason, sentence, changes, command)


# --- one function per reason: (sentence, changes) ----------------------------------------------------------

Text = tuple[str, tuple[str, ...]]


def _misconfigured(found: Judgement) -> Text:
    return sentence_of(f"its queue refuses it: {found.message}"), ("what the message says is put right",)


def _waits_for_pods(found: Judgement) -> Text:
    wait = "waits" if found.unchecked == 1 else "wait"
    checks = f" {found.unchecked} of these {wait} for admission checks." if found.unchecked else ""
    changes = ("the pods of all Workloads that hold quota are ready, or these Workloads are evicted",)
    return f"{REASON_TEXTS[found.reason]}{checks}", changes


def _waits_for_victims(found: Judgement) -> Text:
    victims = victims_of(found)
    if not victims:
        sentence = "Workloads that are being stopped for another one make room for it too."
        return sentence, (f"they have stopped, {TAKEN}",)
    stop, those = ("Workload is", "that Workload") if victims == 1 else ("Workloads are", "those Workloads")
    may_lose = isinstance(found.outcome, Preempt) and found.outcome.assignment.borrow > 0 and found.rivals
    unless = ", unless another ClusterQueue of its cohort takes its own quota" if may_lose else ""
    changes = (f"all pods of {those} have stopped{unless}",)
    return f"{victims} {stop} being stopped to make room for it.", changes


def _exceeds(found: Judgement) -> Text:
    queue = f"ClusterQueue {found.cluster_queue}"
    over = nearest(_rows(found), found.reason)
    changes = (*_limits_raised(found), f"an admin raises the quota of {queue}")
    if not over:  # several pod sets together
        return sentence_of(f"{queue} can never use that much: {found.message}"), (f"{LESS_REQUESTED} less", *changes)
    most = _joined(f"{_amount(row, row.limit)} of flavor {row.flavor}" for row in over)
    less = f"{LESS_REQUESTED} at most {most} (delete it, and submit it again)"
    changes = (less, *_with_fewer_pods(found, over), *changes)
    return f"{_requests(found, over)}, and {queue} can never use more than {most}.", changes


def _with_fewer_pods(found: Judgement, over: Sequence[FlavorEvidence]) -> list[str]:
    """The minimum of a partial admission with which it could start; none without one, or if no pod fits."""
    if found.evidence is None or found.evidence.pods is None or _has_several_pod_sets(found):
        return []
    pods, _ = found.evidence.pods
    fitting = min(row.limit * pods // row.requested for row in over)
    return [f"{FEWER_PODS} at most {fitting}"] if fitting else []


def _no_flavor(found: Judgement) -> Text:
    queue, rows = f"ClusterQueue {found.cluster_queue}", _rows(found)
    names = _joined(row.resource for row in rows if not row.flavor)
    if names:
        changes = (f"it does not request {names}", f"an admin adds a quota for {names} to {queue}")
        return f"{queue} has no quota for {names}.", changes
    refusals = _joined(dict.fromkeys(why for row in rows for why in row.why))
    changes = ("its node selector, affinity and tolerations fit a flavor", f"an admin adds a flavor to {queue}")
    return f"No flavor of {queue} takes it: {refusals}.", changes


def _waits_for_quota(found: Judgement) -> Text:
    lacking = nearest(_rows(found), found.reason)
    if not lacking:
        return f"{_requests_more(found, lacking)}.", (_release(found, lacking),)
    kept = "; what is released is kept for it" if found.promise is not None else ""
    sentence = f"{_requests_more(found, lacking)}{kept}."
    release = _release(found, lacking) + (LESS_WITH_VICTIMS if _has_some_victims(found) else "")
    of_quota = [change + _for_others(found) for change in (release, *_limits_raised(found))]
    return sentence, (*of_quota, *_by_preemption(found))


def _has_some_victims(found: Judgement) -> bool:
    """Whether it may preempt others, which do not suffice alone."""
    checks = found.evidence.preemptions if found.evidence is not None else ()
    return any(check.verdict is PreemptionVerdict.NOT_ENOUGH and check.candidates for check in checks)


def _own_released(found: Judgement, lacking: Sequence[FlavorEvidence]) -> list[str]:
    """Say that its own ClusterQueue has to release so much that it fits into the nominal quota, which the head of
    another one does not keep back.
    """
    if not lacking or any(row.over_nominal is None for row in lacking):
        return []
    short = ((row, max(row.over_nominal or 0, row.requested - row.free)) for row in lacking)
    amounts = _joined(f"{_amount(row, amount)} of flavor {row.flavor}" for row, amount in short)
    return [f"running Workloads of ClusterQueue {found.cluster_queue} release {amounts}"]


def _requests_more(found: Judgement, lacking: Sequence[FlavorEvidence]) -> str:
    """`lacking`: none if each pod set would fit alone."""
    if not lacking:
        quota, why = f"the free quota of ClusterQueue {found.cluster_queue}", found.message.removesuffix(".")
        fault = "Its pod sets do not fit together into" if _has_several_pod_sets(found) else "It cannot use"
        return f"{fault} {quota}: {why}"
    free = _joined(f"{_amount(row, max(0, row.free))} of flavor {row.flavor}" for row in lacking)
    because = ", because of a borrowing limit" if all(row.limited_by for row in lacking) else ""
    return f"{_requests(found, lacking)}, and ClusterQueue {found.cluster_queue} has {free} free{because}"


def _requests(found: Judgement, rows: Sequence[FlavorEvidence]) -> str:
    """Say what it requests, or which of its pod sets; with partial admission, for so many pods as it is judged with."""
    asks = _joined(dict.fromkeys(_amount(row, row.requested) for row in rows))
    pods = found.evidence.pods if found.evidence is not None else None
    whose = f"Its pod set {rows[0].pod_set}" if _has_several_pod_sets(found) else "It"
    return f"{whose} requests {asks}" + (f" for {pods[0]} of its {pods[1]} pods" if pods is not None else "")


def _has_several_pod_sets(found: Judgement) -> bool:
    return len({row.pod_set for row in _rows(found)}) > 1


def _for_others(found: Judgement) -> str:
    """Say that not all of the quota that becomes free is for this Workload."""
    if found.release is None:
        return ", in addition to what is kept for a Workload that preempts others"
    if found.beside:
        return (
            f", in addition to what is kept for the first Workload of ClusterQueue {found.beside}, which is StrictFIFO"
        )
    if found.place is not None and found.place.position > 1:
        return f", {TAKEN}"
    return ", unless another ClusterQueue of its cohort takes it" if found.rivals else ""


def _limits_raised(found: Judgement) -> list[str]:
    """The limits that an admin has to raise so that it fits into one of the flavors: borrowing limits, with what is
    free there; of one that can never fit, borrowing or lending limits, if nothing else runs.

    None of a Workload with several pod sets, which need the quota together.
    """
    never, rows = found.reason == reasons.EXCEEDS_MAX_QUOTA, _rows(found)
    if _has_several_pod_sets(found):
        return []
    short = [row for row in rows if row.requested > (row.limit if never else row.free)]
    fitting = {row.resource for row in rows if row not in short}
    missing = {row.resource for row in rows} - fitting  # in whatever flavor
    limits: dict[str, None] = {}
    for flavor in dict.fromkeys(row.flavor for row in short):
        lacks = [row for row in short if row.flavor == flavor]
        is_of_quota = all(row.reason in _OF_QUOTA for row in lacks)
        if is_of_quota and missing <= {row.resource for row in lacks}:
            borrowing = [row.limited_unused if never else row.limited_by for row in lacks]
            lending = [row.unlent if never else () for row in lacks]
            limits |= dict.fromkeys((*_limits_of("borrowing", borrowing), *_limits_of("lending", lending)))
    return [f"an admin raises {names}" for names in limits]


def _limits_of(kind: str, names_of_each: Sequence[Sequence[str]]) -> list[str]:
    """The limits of one kind with the names of their owners, if such limits keep back each resource."""
    names = dict.fromkeys(name for names in names_of_each for name in names)
    limit = f"the {kind} limit{'' if len(names) == 1 else 's'} of"
    return [f"{limit} {_joined(names)}"] if all(names_of_each) else []


def _release(found: Judgement, nearest_one: Sequence[FlavorEvidence]) -> str:
    """Describe the amounts that others must release: of one resource group in any one of the flavors, of several groups
    or pod sets in the nearest one of each.
    """
    groups = lacks_by_group(_rows(found), found.reason)
    several = _has_several_pod_sets(found)
    ways = [nearest_one] if several or len(groups) > 1 else [lacks for group in groups for lacks in group]
    released = ", or ".join(map(_missing, ways)) or "enough"
    others = ", and what its other pod sets lack" if several and nearest_one else ""
    return f"running Workloads release {released}{others}"


def _missing(lacking: Sequence[FlavorEvidence]) -> str:
    return _joined(f"{_amount(row, row.requested - row.free)} of flavor {row.flavor}" for row in lacking)


def _by_preemption(found: Judgement) -> list[str]:
    """Sentences about the changes that would let the Workload preempt."""
    ways = found.evidence.ways if found.evidence is not None else NO_WAYS
    texts = []
    if ways.protected_until is not None:
        texts.append(PROTECTION_ENDS)
    if ways.priority is not None:
        is_named = ways.priority < HIGHEST_PRIORITY
        texts.append(f"it gets a priority above {ways.priority - 1}" if is_named else "it gets a higher priority")
    for field, value in ways.policies:
        texts.append(f"an admin allows it to preempt ({field}: {value} of ClusterQueue {found.cluster_queue})")
    return texts


_TEXTS: dict[str, Callable[[Judgement], Text]] = {
    reasons.MISCONFIGURED: _misconfigured,
    reasons.WAITING_FOR_PODS_READY: _waits_for_pods,
    reasons.WAITING_FOR_PREEMPTED: _waits_for_victims,
    reasons.EXCEEDS_MAX_QUOTA: _exceeds,
    reasons.NO_MATCHING_FLAVOR: _no_flavor,
    reasons.WAITING_FOR_QUOTA: _waits_for_quota,
}
# Reasons that dominate although another Workload is before it, too.
_DESPITE_A_HEAD = (*NEVER_REASONS, reasons.WAITING_FOR_PODS_READY)


def _rows(found: Judgement) -> Sequence[FlavorEvidence]:
    return found.evidence.flavors if found.evidence is not None else ()


def _amount(row: FlavorEvidence, amount: int) -> str:
    number = text(row.resource, amount)
    return f"{number} {'pod' if row.resource == PODS and number == '1' else row.resource}"


def _joined(parts: Iterable[str]) -> str:
    *most, last = [*parts] or [""]
    return f"{', '.join(most)} and {last}" if most else last
