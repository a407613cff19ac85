"""backoffLimitPerIndex and podFailurePolicy switched off, and on again, while Jobs run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from job_controller.api_rules.dropped_fields import drop
from job_controller.json_tree import Json
from job_controller.labels import COMPLETION_INDEX, INDEX_FAILURE_COUNT
from job_controller.options import JobControllerOptions
from job_controller.switched_off_features import Switches
from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH
from queue_manager.local.disabled_fields import DisabledFields
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin, AdmissionReview
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.simulation.kubelet import pod_status
from tests.unit.job_controller.build import condition_texts, created, final, indexed, job, pod, run
from tests.unit.job_controller.test_on_the_api_server import Cluster, Tree, always, virtually

NO_LIMIT = Switches(backoff_limit_per_index=False)
NO_POLICY = Switches(pod_failure_policy=False)
ONE = {"operator": "In", "values": [1]}
FAIL_JOB = {"rules": [{"action": "FailJob", "onExitCodes": ONE}]}


def counts(*pairs: tuple[int, int]) -> list[Any]:
    """Failed pods with their index and failure count."""
    return [
        pod(f"p{i}", "Failed", index, annotations={INDEX_FAILURE_COUNT: str(failures)})
        for i, (index, failures) in enumerate(pairs)
    ]


# --- decisions -----------------------------------------------------------------------------------------------


def test_without_the_limit_per_index_an_exhausted_index_is_tried_again() -> None:
    two = indexed(2, backoff_limit_per_index=0, max_failed_indexes=0)
    assert condition_texts(final(run(two, *counts((0, 0)), pod("b", index=1))))
    decision = run(two, *counts((0, 0)), pod("b", index=1), now=60, switches=NO_LIMIT)
    assert (created(decision), condition_texts(final(decision)), final(decision).failed) == ([0], [], 1)


def test_failed_indexes_leave_status_and_run_again() -> None:
    stored = {"failedIndexes": "0", "failed": 1, "active": 1, "ready": 0, "terminating": 0}
    decision = run(indexed(2, backoff_limit_per_index=0, status=stored), pod("b", index=1), switches=NO_LIMIT)
    assert (created(decision), final(decision).failed_indexes, final(decision).failed) == ([0], None, 1)


def test_pods_made_meanwhile_carry_no_failure_counts() -> None:
    decision = run(indexed(1, backoff_limit_per_index=3), switches=NO_LIMIT)
    [step] = [step for step in decision.steps if type(step).__name__ == "CreatePods"]
    assert [plan.failures for plan in step.plans] == [None]  # type: ignore[union-attr]


def test_the_backoff_limit_holds_meanwhile() -> None:
    one = indexed(1, backoff_limit_per_index=5, backoff_limit=0)
    decision = run(one, *counts((0, 0)), switches=NO_LIMIT)
    assert condition_texts(final(decision))[-1].startswith("Failed=True/BackoffLimitExceeded")


def test_switched_on_again_a_pod_resumes_with_the_count_that_it_carries() -> None:
    again = run(indexed(1, backoff_limit_per_index=3), *counts((0, 2)), now=100)
    [step] = [step for step in again.steps if type(step).__name__ == "CreatePods"]
    assert [plan.failures for plan in step.plans] == [3]  # type: ignore[union-attr]


def test_without_the_policy_every_failure_counts_in_the_default_way() -> None:
    ignored = {"rules": [{"action": "Ignore", "onExitCodes": ONE}]}
    for policy, limit in ((ignored, 0), (FAIL_JOB, 6)):
        plain = job(backoff_limit=limit, pod_failure_policy=policy, pod_replacement_policy="Failed")
        decision = run(plain, pod("a", "Failed"), switches=NO_POLICY)
        assert final(decision).failed == 1
        reasons = condition_texts(final(decision))
        assert reasons[-1].startswith("Failed=True/BackoffLimitExceeded") if limit == 0 else reasons == []


def test_rules_keep_their_numbers_when_fail_index_does_not_apply() -> None:
    rules = [{"action": "FailIndex", "onExitCodes": ONE}, {"action": "FailJob", "onExitCodes": ONE}]
    policed = indexed(1, backoff_limit_per_index=1, pod_failure_policy={"rules": rules})
    decision = run(policed, *counts((0, 0)), switches=NO_LIMIT)
    assert condition_texts(final(decision))[-1] == (
        "Failed=True/PodFailurePolicy Container c for pod ns/p0 failed with exit code 1 "
        "matching FailJob rule at index 1"
    )


# --- while Jobs run, each switch a restart ---------------------------------------------------------------------


def options(**switches: bool) -> JobControllerOptions:
    return JobControllerOptions(backoff_base=1.0, switches=Switches(**switches))


async def fail(cluster: Cluster, index: int) -> None:
    """The running pod of this index ends with exit code 1."""
    for tree in await cluster.pods():
        meta = tree["metadata"]
        if meta["annotations"][COMPLETION_INDEX] == str(index) and tree["status"]["phase"] == "Running":
            change = {"status": pod_status("Failed", 1, cluster.clock.now())}
            kind = {"subresource": "status", "content_type": STRATEGIC_PATCH}
            await cluster.user.patch(PODS, "default", meta["name"], change, **kind)
            return
    raise AssertionError(f"no pod runs for index {index}")


async def seen(cluster: Cluster) -> tuple[int, int, str | None]:
    status = (await cluster.job())["status"]
    return status.get("active", 0), status.get("failed", 0), status.get("failedIndexes")


async def come_to(cluster: Cluster, *wanted: Any) -> None:
    async def is_so() -> bool:
        return await seen(cluster) == wanted

    await cluster.until(is_so, seconds=600)
    await asyncio.sleep(30)  # and it stays so
    assert await seen(cluster) == wanted


@virtually
async def test_limit_per_index_off_and_on_again_as_in_kep_3850() -> None:
    """KEP-3850, upgrade and rollback: index 0 fails; off: it runs again; on: index 2 fails for good."""
    cluster = Cluster()
    running = always(ends_after=None)
    async with cluster.controllers(running, options()):
        await cluster.submit(completionMode="Indexed", completions=3, parallelism=3, backoffLimitPerIndex=0)
        await come_to(cluster, 3, 0, "")
        await fail(cluster, 0)
        await come_to(cluster, 2, 1, "0")
    async with cluster.controllers(running, options(backoff_limit_per_index=False)):
        await come_to(cluster, 3, 1, None)
        await fail(cluster, 1)
        await come_to(cluster, 3, 2, None)
    async with cluster.controllers(running, options()):
        await come_to(cluster, 3, 2, "")
        await fail(cluster, 2)
        await come_to(cluster, 2, 3, "2")


@virtually
async def test_policy_off_and_on_again() -> None:
    cluster = Cluster()
    running = always(ends_after=None)
    kind = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    async with cluster.controllers(running, options(pod_failure_policy=False)):
        await cluster.submit(**kind, podFailurePolicy=FAIL_JOB)
        await come_to(cluster, 2, 0, None)
        await fail(cluster, 0)
        await come_to(cluster, 2, 1, None)
    async with cluster.controllers(running, options()):
        await come_to(cluster, 2, 1, None)
        await fail(cluster, 1)
        status = await cluster.finished()
        assert (status["conditions"][-1]["reason"], status["failed"]) == ("PodFailurePolicy", 3)


# --- the API server ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("switches", "spec", "old", "dropped"),
    [
        (Switches(), {"backoffLimitPerIndex": 1, "podFailurePolicy": {}}, None, []),
        (NO_LIMIT, {"backoffLimitPerIndex": 1, "maxFailedIndexes": 2}, None,
         ["backoffLimitPerIndex", "maxFailedIndexes"]),
        (NO_LIMIT, {"backoffLimitPerIndex": None}, None, []),
        (NO_LIMIT, {"backoffLimitPerIndex": 1}, {"backoffLimitPerIndex": 1}, []),
        (NO_LIMIT, {"maxFailedIndexes": 1}, {"backoffLimitPerIndex": 1}, ["maxFailedIndexes"]),
        (NO_LIMIT, {"podFailurePolicy": {"rules": [{"action": "FailIndex"}, {"action": "Count"}]}}, None,
         ["podFailurePolicy.rules[0]"]),
        (NO_LIMIT, {"podFailurePolicy": {"rules": [{"action": "FailIndex"}]}},
         {"podFailurePolicy": {"rules": [{"action": "FailIndex"}]}}, []),
        (NO_POLICY, {"podFailurePolicy": {"rules": []}}, None, ["podFailurePolicy"]),
        (NO_POLICY, {"podFailurePolicy": {"rules": []}}, {"podFailurePolicy": {"rules": None}}, []),
    ],
)  # fmt: skip
def test_fields_that_are_off_are_dropped_unless_a_stored_job_has_them(
    switches: Switches, spec: Json, old: Json | None, dropped: list[str]
) -> None:
    given = {name: value for name, value in spec.items() if name not in dropped and "rules" not in str(dropped)}
    tree = {"spec": spec}
    assert drop(tree, None if old is None else {"spec": old}, switches) == [f"spec.{name}" for name in dropped]
    assert given.items() <= tree["spec"].items()
    assert not [name for name in dropped if name in tree["spec"]]


class Switchable(Cluster):
    """A Cluster whose API server has switches."""

    def __init__(self, switches: Switches) -> None:
        super().__init__()
        self.admission: list[AdmissionPlugin] = [DisabledFields(switches)]
        self.server = ApiServer(self.store, KindRegistry.builtin(), self.clock, self.admission)
        self.user = type(self.user)(LocalTransport(self.server, "user"))


@virtually
async def test_a_dropped_field_leaves_no_default_behind_and_a_warning() -> None:
    cluster = Switchable(Switches(backoff_limit_per_index=False, pod_failure_policy=False))
    made = await cluster.submit(
        completionMode="Indexed", completions=1, backoffLimitPerIndex=1, podFailurePolicy=FAIL_JOB
    )
    assert (made["spec"]["backoffLimit"], made["spec"]["podReplacementPolicy"]) == (6, "TerminatingOrFailed")
    assert not made["spec"].keys() & {"backoffLimitPerIndex", "podFailurePolicy"}
    warnings: list[str] = []
    tree: Tree = {"spec": {"podFailurePolicy": FAIL_JOB}}
    DisabledFields(NO_POLICY).mutate(AdmissionReview("CREATE", JOBS, "", tree, None, "user", warnings=warnings))
    assert warnings == ["spec.podFailurePolicy: disabled in this cluster, the field is dropped"]


@virtually
async def test_a_stored_job_keeps_its_fields_through_updates() -> None:
    cluster = Switchable(Switches())
    await cluster.submit(completionMode="Indexed", completions=1, backoffLimitPerIndex=1, maxFailedIndexes=1)
    cluster.admission[:] = [DisabledFields(NO_LIMIT)]
    changed = await cluster.user.patch(JOBS, "default", "j", {"spec": {"parallelism": 3}})
    assert (changed["spec"]["backoffLimitPerIndex"], changed["spec"]["maxFailedIndexes"]) == (1, 1)
