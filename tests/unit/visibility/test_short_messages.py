"""Reasons and messages of the API as short sentences."""

from __future__ import annotations

import pytest

from queue_manager.api import messages
from queue_manager.scheduling.flavor_matching import refusal
from queue_manager.visibility.short_messages import GAVE_UP, event_reason, never_starts, plain
from tests.unit.visibility.build import flavor

MAIN = "couldn't assign flavors to pod set main: "
UNUSED = messages.insufficient_unused("cpu", "a", "1")
TOO_LARGE = messages.insufficient_capacity("cpu", "a", "0", "64", "4")
BESIDE = messages.insufficient_capacity("memory", "b", "1Gi", "8Gi", "4Gi")


@pytest.mark.parametrize(
    ("reason", "message", "says"),
    [
        ("WaitingForQuota", MAIN + UNUSED, "needs 1 more cpu (a)"),
        ("ExceedsMaxQuota", MAIN + TOO_LARGE, "can never start: asks 64 cpu, queue limit 4"),
        (
            "ExceedsMaxQuota",
            f"{MAIN}{TOO_LARGE}, {UNUSED}",
            "can never start: asks 64 cpu, queue limit 4; needs 1 more cpu (a)",
        ),
        (
            "ExceedsMaxQuota",
            f"{MAIN}{TOO_LARGE}; {MAIN}{BESIDE}",
            "can never start: asks 64 cpu, queue limit 4 (a); asks 8Gi memory beside 1Gi, queue limit 4Gi (b)",
        ),
        ("ExceedsMaxQuota", f"{MAIN}{TOO_LARGE}, new words", f"ExceedsMaxQuota: {MAIN}{TOO_LARGE}, new words"),
        ("NoMatchingFlavor", MAIN + "flavor x not found", f"NoMatchingFlavor: {MAIN}flavor x not found"),
        (
            "WaitingForPreemptedWorkloads",
            messages.pending_preemption(MAIN, 1),
            "waits until 1 preempted Workload stops",
        ),
        (
            "WaitingForPreemptedWorkloads",
            messages.pending_preemption(MAIN, 2),
            "waits until 2 preempted Workloads stop",
        ),
        (
            "WaitingForPreemptedWorkloads",
            messages.WILL_FIT_MESSAGE,
            "waits until Workloads that another one has preempted stop",
        ),
        ("WaitingForQuota", messages.OVERLAPPING_TARGETS_MESSAGE, "waits: another one preempts the same Workloads"),
        ("WaitingForQuota", messages.KEPT_FOR_HEAD_MESSAGE, "quota is kept for one that is ordered before it"),
        (
            "WaitingForQuota",
            messages.EQUIVALENT_MESSAGE,
            "not tried: Job never with the same requests does not fit",
        ),
        ("PendingEvaluation", "waits for its turn in q", "waits for its turn in q"),
        (GAVE_UP, "The workload is deactivated due to x", "gave up after 3 attempts"),
        (
            "NoMatchingFlavor",
            f"{MAIN}resource gpu unavailable in ClusterQueue, {UNUSED}",
            "can never start: queue has no quota for gpu; needs 1 more cpu (a)",
        ),
        ("Deactivated", "The workload is deactivated", "by a user"),
        ("Reactivated", "The workload was reactivated", "reactivated by a user"),
        (
            "Misconfigured",
            "LocalQueue  doesn't exist",
            "Misconfigured: it names no LocalQueue (label kueue.x-k8s.io/queue-name)",
        ),
        ("CompletionsReached", "Reached expected number of succeeded pods", ""),
        ("SuccessPolicy", "Matched rules at index 0", "SuccessPolicy: Matched rules at index 0"),
        ("", "", ""),
    ],
)
def test_a_reason_and_its_message_become_one_sentence(reason: str, message: str, says: str) -> None:
    assert plain(reason, message, attempts=3, equivalent="never") == says


TAINTS = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "old", "effect": "NoExecute"}]
SELECTING = {"nodeSelector": {"zone": "b"}}
OTHER_ZONE = refusal(flavor("f1", nodeLabels={"zone": "a"}), SELECTING)
TAINTED, TAINTED_TOO = (refusal(flavor(f"f.{i}", nodeTaints=[taint]), {}) for i, taint in enumerate(TAINTS))


@pytest.mark.parametrize(
    ("reason", "texts", "says"),
    [
        ("ExceedsMaxQuota", [OTHER_ZONE, TOO_LARGE], "can never start: asks 64 cpu, queue limit 4"),
        ("WaitingForQuota", [OTHER_ZONE, UNUSED], "needs 1 more cpu (a)"),
        ("WaitingForQuota", [UNUSED, TAINTED, TAINTED_TOO], "needs 1 more cpu (a)"),
        ("NoMatchingFlavor", [OTHER_ZONE], f"can never start: {OTHER_ZONE}"),
        ("NoMatchingFlavor", [OTHER_ZONE, TAINTED_TOO], f"can never start: {OTHER_ZONE}; {TAINTED_TOO}"),
        ("NoMatchingFlavor", [UNUSED, TAINTED], f"can never start: needs 1 more cpu (a); {TAINTED}"),
        ("WaitingForQuota", [TAINTED, "new words"], f"WaitingForQuota: {MAIN}{TAINTED}, new words"),
    ],
)
def test_flavors_that_do_not_match_are_named_only_if_none_matches(reason: str, texts: list[str], says: str) -> None:
    """The quota of one resource may be short, and no flavor of another one match: then both are said."""
    assert plain(reason, f"{MAIN}{', '.join(texts)}") == says


@pytest.mark.parametrize(
    ("reason", "message", "says"),
    [
        ("Preempted", messages.preempted("u", "j", "InClusterQueue", "/b", "/a"), "; its pods are being stopped"),
        ("WaitingForQuota", MAIN + UNUSED, "; needs 1 more cpu (a)"),
        ("", "", ""),
    ],
)
def test_a_victim_is_told_who_needed_its_quota_and_what_it_waits_for(reason: str, message: str, says: str) -> None:
    who = "for priority 100 of ClusterQueue b"
    assert plain(reason, message, preempted_for=who) == f"preempted {who}{says}"


def test_no_refused_job_is_named_if_there_is_none() -> None:
    said = plain("WaitingForQuota", messages.EQUIVALENT_MESSAGE)
    assert said == "not tried: another Job with the same requests does not fit"


def test_a_bypassed_job_says_the_cause_before_the_job_that_was_tried() -> None:
    said = plain(
        "WaitingForQuota", messages.EQUIVALENT_MESSAGE, equivalent="never", equivalent_reason="needs 1 more cpu (a)"
    )
    assert said == "needs 1 more cpu (a), like Job never with the same requests"


def test_events_of_evictions_have_one_short_reason() -> None:
    assert event_reason("EvictedDueToDeactivatedDueToRequeuingLimitExceeded") == "Evicted"
    assert event_reason("QuotaReserved") == "QuotaReserved"


def test_what_never_fits_queue_and_nodes_names_the_queue_first() -> None:
    lacks = "the only node, n, has 4 cpu allocatable; a pod requests 64"
    asks = "asks 64 cpu, queue limit 4"
    assert never_starts(lacks, "ExceedsMaxQuota", asks) == f"can never start: {asks}; {lacks}"
    assert never_starts(lacks, "PendingEvaluation", "waits for its turn") == f"can never start: {lacks}"
    assert never_starts(lacks, "NotQueued", "", "cannot start: no class") == f"cannot start: no class; {lacks}"
    held = "LocalQueue q is held (sluice release q)"
    assert never_starts(lacks, "Suspended", "", held) == f"can never start: {lacks}; {held}"
    assert never_starts(lacks, "Suspended", "", f"can never start: {lacks}") == f"can never start: {lacks}"
