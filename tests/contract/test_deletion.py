"""DELETE: finalizers, propagation, preconditions, grace. No garbage collector runs beside the servers."""

from __future__ import annotations

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH
from tests.contract.bodies import config_map, job, pod
from tests.contract.session import Session


async def test_a_delete_removes_the_object_and_is_answered_by_a_status(s: Session) -> None:
    await s.create(config_map())
    await s.delete(CONFIG_MAPS, "a")
    await s.get(CONFIG_MAPS, "a")
    await s.delete(CONFIG_MAPS, "a")


async def test_a_finalizer_holds_an_object_until_it_is_removed(s: Session) -> None:
    await s.create(config_map("a", None, finalizers=["example.com/hold"]))
    await s.delete(CONFIG_MAPS, "a")
    await s.get(CONFIG_MAPS, "a")
    await s.delete(CONFIG_MAPS, "a")
    await s.replace(config_map("a", {"k": "changed"}, finalizers=["example.com/hold"]))
    await s.replace(config_map("a", None, finalizers=["example.com/hold", "example.com/late"]))
    await s.replace(config_map("a", None, finalizers=[]))
    await s.get(CONFIG_MAPS, "a")


async def test_setting_the_deletion_timestamp_increments_the_generation(s: Session) -> None:
    await s.create(job("j", None, finalizers=["example.com/hold"]))
    await s.delete(JOBS, "j", propagationPolicy="Background")


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan", "Sideways"])
@pytest.mark.parametrize("way", ["query", "body"])
async def test_propagation(s: Session, policy: str, way: str) -> None:
    """A propagation policy becomes a finalizer, whether it comes in the query or in the body."""
    await s.create(job())
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
    if way == "query":
        await s.delete(JOBS, "j", propagationPolicy=policy)
    else:
        await s.delete(JOBS, "j", options)
    await s.get(JOBS, "j")


async def test_jobs_are_deleted_with_the_orphan_policy_by_default(s: Session) -> None:
    await s.create(job())
    await s.delete(JOBS, "j")
    await s.get(JOBS, "j")


async def test_a_later_policy_replaces_an_earlier_one(s: Session) -> None:
    await s.create(config_map("a", None, finalizers=["example.com/hold"]))
    await s.delete(CONFIG_MAPS, "a", propagationPolicy="Foreground")
    await s.delete(CONFIG_MAPS, "a", propagationPolicy="Orphan")
    await s.delete(CONFIG_MAPS, "a", propagationPolicy="Background")
    await s.delete(CONFIG_MAPS, "a")


async def test_orphan_dependents_is_the_deprecated_form_of_the_policy(s: Session) -> None:
    await s.create(config_map("a", None, finalizers=["example.com/hold"]))
    await s.delete(CONFIG_MAPS, "a", orphanDependents="true")
    await s.delete(CONFIG_MAPS, "a", orphanDependents="false")
    await s.delete(CONFIG_MAPS, "a", orphanDependents="true", propagationPolicy="Orphan")


async def test_a_delete_whose_preconditions_do_not_hold_is_refused(s: Session) -> None:
    made = await s.create(config_map())
    other = "11111111-1111-4111-8111-111111111111"
    await s.delete(CONFIG_MAPS, "a", {"preconditions": {"uid": other}})
    await s.delete(CONFIG_MAPS, "a", {"preconditions": {"resourceVersion": "1"}})
    right = {"uid": made.meta["uid"], "resourceVersion": made.version}
    await s.delete(CONFIG_MAPS, "a", {"preconditions": right})


async def test_an_unbound_pod_is_deleted_at_once(s: Session) -> None:
    await s.create(pod())
    await s.delete(PODS, "p")
    await s.get(PODS, "p")


async def test_a_bound_pod_gets_its_grace_period_which_can_be_shortened(s: Session) -> None:
    await s.create(pod("p", {"nodeName": "n", "terminationGracePeriodSeconds": 60}))
    await s.delete(PODS, "p")
    await s.delete(PODS, "p", gracePeriodSeconds=90)
    await s.delete(PODS, "p", gracePeriodSeconds=5)
    await s.delete(PODS, "p", gracePeriodSeconds=0)
    await s.get(PODS, "p")


async def test_a_negative_grace_period_means_one_second(s: Session) -> None:
    await s.create(pod("p", {"nodeName": "n"}))
    await s.delete(PODS, "p", gracePeriodSeconds=-1)


async def test_a_finished_pod_gets_no_grace_period(s: Session) -> None:
    await s.create(pod("p", {"nodeName": "n"}))
    await s.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, subresource="status")
    await s.delete(PODS, "p")


async def test_a_grace_period_has_no_effect_on_other_kinds(s: Session) -> None:
    await s.create(config_map())
    await s.delete(CONFIG_MAPS, "a", gracePeriodSeconds=30)
    await s.get(CONFIG_MAPS, "a")


async def test_a_pod_with_a_finalizer_stays_after_its_grace_period(s: Session) -> None:
    await s.create(pod("p", {"nodeName": "n"}, finalizers=["example.com/hold"]))
    await s.delete(PODS, "p", gracePeriodSeconds=0)
    await s.patch(PODS, "p", {"metadata": {"finalizers": None}})
    await s.get(PODS, "p")


async def test_a_dry_run_deletes_nothing(s: Session) -> None:
    await s.create(config_map())
    await s.delete(CONFIG_MAPS, "a", dryRun="All")
    await s.delete(CONFIG_MAPS, "a", {"dryRun": ["All"]})
    await s.delete(CONFIG_MAPS, "a", dryRun="Some")
    await s.get(CONFIG_MAPS, "a")


async def test_a_collection_is_deleted_by_selector(s: Session) -> None:
    for name, team in (("a", "x"), ("b", "y"), ("c", "x")):
        await s.create(config_map(name, None, labels={"team": team}), silent=True)
    await s.delete(CONFIG_MAPS, "", labelSelector="team=x")
    await s.list(CONFIG_MAPS)
    await s.delete(CONFIG_MAPS, "", fieldSelector="metadata.name=b")
    await s.list(CONFIG_MAPS)


async def test_deleting_a_collection_marks_objects_that_have_finalizers(s: Session) -> None:
    await s.create(config_map("a", None, finalizers=["example.com/hold"]), silent=True)
    await s.delete(CONFIG_MAPS, "")
    await s.list(CONFIG_MAPS)


async def test_an_eviction_deletes_a_pod(s: Session) -> None:
    await s.create(pod())
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    await s.ask("POST", s.path(PODS, "p", "eviction"), eviction)
    await s.get(PODS, "p")
    await s.ask("POST", s.path(PODS, "p", "eviction"), eviction)


@pytest.mark.parametrize(("status", "differs"), [("True", "first-disruption"), ("False", ""), ("Unknown", "")])
async def test_an_eviction_of_a_pod_that_is_a_disruption_target(s: Session, status: str, differs: str) -> None:
    """The condition keeps its first cause. A finalizer keeps the pod, so that the condition can be read."""
    await s.create(pod("p", None, finalizers=["example.com/hold"]), silent=True)
    mine = {"type": "DisruptionTarget", "status": status, "reason": "Mine", "message": "first"}
    await s.patch(PODS, "p", {"status": {"conditions": [mine]}}, STRATEGIC_PATCH, subresource="status", silent=True)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    await s.ask("POST", s.path(PODS, "p", "eviction"), eviction)
    found = await s.get(PODS, "p", silent=True)
    s.check_step({"conditions": s.normal.tree(found.body["status"]["conditions"])}, differs)
    await s.patch(PODS, "p", {"metadata": {"finalizers": None}}, silent=True)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "ConfigMap", "apiVersion": "v1"},
        {"propagationPolicy": 1},
        {"gracePeriodSeconds": "x"},
        {"preconditions": []},
        [],
    ],
    ids=["another-kind", "policy-number", "grace-text", "preconditions-list", "list"],
)
async def test_invalid_delete_options(s: Session, body: object) -> None:
    """Invalid options are refused, and nothing is deleted."""
    await s.create(config_map(), silent=True)
    await s.delete(CONFIG_MAPS, "a", body)
    await s.get(CONFIG_MAPS, "a")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_system_namespaces_cannot_be_deleted(s: Session, name: str) -> None:
    await s.ask("DELETE", NAMESPACES.path(name=name))
    await s.ask("DELETE", NAMESPACES.path(name=name), dryRun="All")
