"""Deleting: finalizers, propagation, preconditions, grace. No collector of garbage runs beside the servers here."""

from __future__ import annotations

import pytest

from queue_manager.api.resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS
from queue_manager.engine.transport import STRATEGIC_PATCH
from tests.contract.bodies import config_map, job, pod
from tests.contract.session import Session


async def test_a_deleted_object_is_gone_and_answered_by_a_status(s: Session) -> None:
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


async def test_deletion_counts_in_the_generation(s: Session) -> None:
    await s.create(job("j", None, finalizers=["example.com/hold"]))
    await s.delete(JOBS, "j", propagationPolicy="Background")


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan", "Sideways"])
@pytest.mark.parametrize("way", ["query", "body"])
async def test_propagation(s: Session, policy: str, way: str) -> None:
    """A policy becomes a finalizer, wherever it is said."""
    await s.create(job())
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
    if way == "query":
        await s.delete(JOBS, "j", propagationPolicy=policy)
    else:
        await s.delete(JOBS, "j", options)
    await s.get(JOBS, "j")


async def test_jobs_keep_their_pods_unless_told_otherwise(s: Session) -> None:
    await s.create(job())
    await s.delete(JOBS, "j")
    await s.get(JOBS, "j")


async def test_a_later_policy_replaces_an_earlier_one(s: Session) -> None:
    await s.create(config_map("a", None, finalizers=["example.com/hold"]))
    await s.delete(CONFIG_MAPS, "a", propagationPolicy="Foreground")
    await s.delete(CONFIG_MAPS, "a", propagationPolicy="Orphan")
    await s.delete(CONFIG_MAPS, "a", propagationPolicy="Background")
    await s.delete(CONFIG_MAPS, "a")


async def test_orphan_dependents_is_the_old_word(s: Session) -> None:
    await s.create(config_map("a", None, finalizers=["example.com/hold"]))
    await s.delete(CONFIG_MAPS, "a", orphanDependents="true")
    await s.delete(CONFIG_MAPS, "a", orphanDependents="false")
    await s.delete(CONFIG_MAPS, "a", orphanDependents="true", propagationPolicy="Orphan")


async def test_preconditions_name_the_object_meant(s: Session) -> None:
    made = await s.create(config_map())
    other = "11111111-1111-4111-8111-111111111111"
    await s.delete(CONFIG_MAPS, "a", {"preconditions": {"uid": other}})
    await s.delete(CONFIG_MAPS, "a", {"preconditions": {"resourceVersion": "1"}})
    right = {"uid": made.meta["uid"], "resourceVersion": made.version}
    await s.delete(CONFIG_MAPS, "a", {"preconditions": right})


async def test_a_pod_that_runs_nowhere_goes_at_once(s: Session) -> None:
    await s.create(pod())
    await s.delete(PODS, "p")
    await s.get(PODS, "p")


async def test_a_pod_on_a_node_gets_its_grace_and_may_have_it_shortened(s: Session) -> None:
    await s.create(pod("p", {"nodeName": "n", "terminationGracePeriodSeconds": 60}))
    await s.delete(PODS, "p")
    await s.delete(PODS, "p", gracePeriodSeconds=90)
    await s.delete(PODS, "p", gracePeriodSeconds=5)
    await s.delete(PODS, "p", gracePeriodSeconds=0)
    await s.get(PODS, "p")


async def test_a_negative_grace_is_one_second(s: Session) -> None:
    await s.create(pod("p", {"nodeName": "n"}))
    await s.delete(PODS, "p", gracePeriodSeconds=-1)


async def test_a_finished_pod_gets_no_grace(s: Session) -> None:
    await s.create(pod("p", {"nodeName": "n"}))
    await s.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, subresource="status")
    await s.delete(PODS, "p")


async def test_grace_means_nothing_to_other_kinds(s: Session) -> None:
    await s.create(config_map())
    await s.delete(CONFIG_MAPS, "a", gracePeriodSeconds=30)
    await s.get(CONFIG_MAPS, "a")


async def test_a_pod_with_a_finalizer_is_kept_after_its_grace(s: Session) -> None:
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


async def test_a_collection_with_finalizers_is_marked(s: Session) -> None:
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
    """The pod stays for its finalizer, so its condition can be read. Times are those of the server."""
    await s.create(pod("p", None, finalizers=["example.com/hold"]), silent=True)
    mine = {"type": "DisruptionTarget", "status": status, "reason": "Mine", "message": "first"}
    await s.patch(PODS, "p", {"status": {"conditions": [mine]}}, STRATEGIC_PATCH, subresource="status", silent=True)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    await s.ask("POST", s.path(PODS, "p", "eviction"), eviction)
    found = await s.get(PODS, "p", silent=True)
    s.follow({"conditions": s.normal.tree(found.body["status"]["conditions"])}, differs)
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
async def test_bad_options(s: Session, body: object) -> None:
    """Options that are none are refused, and nothing is deleted."""
    await s.create(config_map(), silent=True)
    await s.delete(CONFIG_MAPS, "a", body)
    await s.get(CONFIG_MAPS, "a")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_namespaces_that_every_cluster_has_are_not_deleted(s: Session, name: str) -> None:
    await s.ask("DELETE", NAMESPACES.path(name=name))
    await s.ask("DELETE", NAMESPACES.path(name=name), dryRun="All")
