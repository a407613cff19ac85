"""The visibility API lists the pending Workloads of a queue in order, with Kueue's fields."""

from __future__ import annotations

from typing import Any

import pytest

from job_controller.model import Key
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling.workload_info import info
from queue_manager.visibility import pending_summary
from queue_manager.visibility.pending_summary import VERSIONS, PendingSummaries, explanation_path, parse
from tests.unit.queueing.builders import T0, cluster_queue, local_queue, workload

ROOT = "/apis/visibility.kueue.x-k8s.io/v1beta2"
OF_CQ = f"{ROOT}/clusterqueues/cq/pendingworkloads"
OF_LQ = f"{ROOT}/namespaces/ns/localqueues/lq/pendingworkloads"


@pytest.fixture
def summaries() -> PendingSummaries:
    """Two LocalQueues of one ClusterQueue: b (priority 1), a1, x of the other, a2."""
    some = [
        workload("a1", created=1),
        workload("a2", created=3),
        workload("b", created=9, priority=1),
        workload("x", created=2, queue="other", namespace="secret"),
    ]
    queues = Queues()
    queues.set_cluster_queue(cluster_queue(), T0)
    queues.set_local_queue(local_queue(), T0)
    queues.set_local_queue(local_queue("other", namespace="secret"), T0)
    for w in some:
        queues.put(info(w), T0)
    by_key = {w.metadata.key: w for w in some}
    return PendingSummaries(queues, by_key.get)


def rows(summaries: PendingSummaries, path: str, **query: str) -> list[tuple[Any, ...]]:
    """(name, position in the ClusterQueue, position in the LocalQueue) of each item."""
    found = summaries.answer(path, query)
    assert found is not None
    assert found.status == 200
    return [
        (i["metadata"]["name"], i["positionInClusterQueue"], i["positionInLocalQueue"]) for i in found.body["items"]
    ]


def test_the_items_of_a_cluster_queue_are_in_the_order_of_admission(summaries: PendingSummaries) -> None:
    assert rows(summaries, OF_CQ) == [("b", 0, 0), ("a1", 1, 1), ("x", 2, 0), ("a2", 3, 2)]


def test_a_local_queue_lists_only_its_own_with_their_positions_in_the_cluster_queue(
    summaries: PendingSummaries,
) -> None:
    assert rows(summaries, OF_LQ) == [("b", 0, 0), ("a1", 1, 1), ("a2", 3, 2)]


@pytest.mark.parametrize(
    ("path", "query", "names"),
    [
        (OF_CQ, {"limit": "2"}, ["b", "a1"]),
        (OF_CQ, {"limit": "2", "offset": "1"}, ["a1", "x"]),
        (OF_CQ, {"offset": "3"}, ["a2"]),
        (OF_CQ, {"offset": "9"}, []),
        (OF_CQ, {"limit": "0"}, []),
        (OF_CQ, {"limit": "999999999"}, ["b", "a1", "x", "a2"]),
        (OF_LQ, {"limit": "1", "offset": "1"}, ["a1"]),
    ],
)
def test_limit_and_offset_choose_a_page(
    summaries: PendingSummaries, path: str, query: dict[str, str], names: list[str]
) -> None:
    assert [row[0] for row in rows(summaries, path, **query)] == names


def test_no_page_is_longer_than_the_cap(summaries: PendingSummaries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_summary, "MAX_LIMIT", 3)
    assert [row[0] for row in rows(summaries, OF_CQ, limit="4")] == ["b", "a1", "x"]


def test_an_item_has_the_fields_of_kueue(summaries: PendingSummaries) -> None:
    found = summaries.answer(OF_CQ, {"limit": "1"})
    assert found is not None
    assert found.body == {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": "visibility.kueue.x-k8s.io/v1beta2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": "b", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:09Z"},
                "priority": 1,
                "localQueueName": "lq",
                "positionInClusterQueue": 0,
                "positionInLocalQueue": 0,
            }
        ],
    }


@pytest.mark.parametrize(
    ("path", "query", "status", "reason"),
    [
        (OF_CQ.replace("/cq/", "/nope/"), {}, 404, "NotFound"),
        (OF_LQ.replace("/lq/", "/nope/"), {}, 404, "NotFound"),
        (OF_LQ.replace("/ns/", "/secret/"), {}, 404, "NotFound"),
        (OF_CQ, {"limit": "-1"}, 400, "BadRequest"),
        (OF_CQ, {"offset": "x"}, 400, "BadRequest"),
        (OF_CQ, {"offset": "-1"}, 400, "BadRequest"),
        (OF_CQ, {"limit": "9" * 5000}, 400, "BadRequest"),
    ],
)
def test_unknown_queues_and_malformed_options_are_refused(
    summaries: PendingSummaries, path: str, query: dict[str, str], status: int, reason: str
) -> None:
    found = summaries.answer(path, query)
    assert found is not None
    assert (found.status, found.body["reason"], found.body["code"]) == (status, reason, status)


@pytest.mark.parametrize(
    "path",
    [ROOT, f"{ROOT}/clusterqueues/cq", OF_CQ.replace("v1beta2", "v1"), OF_CQ + "/more", "/apis/batch/v1/jobs"],
)
def test_other_paths_are_none_of_this_api(summaries: PendingSummaries, path: str) -> None:
    assert summaries.answer(path, {}) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_both_versions_are_served(summaries: PendingSummaries, version: str) -> None:
    found = summaries.answer(OF_CQ.replace("v1beta2", version), {})
    assert found is not None
    assert found.body["apiVersion"].endswith(version)


def test_a_path_names_the_resource_for_authorization() -> None:
    cluster, local, explained = parse(OF_CQ), parse(OF_LQ), parse(explanation_path(Key("ns", "lq")))
    assert cluster is not None
    assert local is not None
    assert explained == local._replace(subresource="explanation")
    assert local.subresource == cluster.subresource == "pendingworkloads"
    assert (cluster.resource, cluster.namespace, cluster.name) == ("clusterqueues", "", "cq")
    assert (local.resource, Key(local.namespace, local.name)) == ("localqueues", Key("ns", "lq"))
