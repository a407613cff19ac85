"""Subresources of pods: binding, eviction, logs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_manager.api.api_resources import PODS
from queue_manager.local.container_logs_protocol import LogOptions
from queue_manager.local.server.api_server import Response, ServerRequest, Stream
from tests.local.server.world import World, path, pod

BINDING = {"kind": "Binding", "apiVersion": "v1", "target": {"kind": "Node", "name": "n1"}}


async def test_a_binding_gives_the_pod_its_node(world: World) -> None:
    await world.create(PODS, pod("p"))
    answer = await world.ask("POST", path(PODS, "p", subresource="binding"), BINDING)
    assert (answer.status, answer.body["status"]) == (201, "Success")
    found = await world.get(PODS, "p")
    assert found["spec"]["nodeName"] == "n1"
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    assert found["status"]["conditions"] == [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]


async def test_a_pod_is_bound_once(world: World) -> None:
    await world.create(PODS, pod("p"))
    await world.ask("POST", path(PODS, "p", subresource="binding"), BINDING)
    answer = await world.ask("POST", path(PODS, "p", subresource="binding"), BINDING)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message.endswith('pod p is already assigned to node "n1"')


async def test_a_binding_needs_a_node(world: World) -> None:
    await world.create(PODS, pod("p"))
    answer = await world.ask("POST", path(PODS, "p", subresource="binding"), {"kind": "Binding"})
    assert answer.status == 422


async def test_an_eviction_marks_the_disruption_and_deletes(world: World) -> None:
    await world.create(PODS, pod("p"))
    await world.ask("POST", path(PODS, "p", subresource="binding"), BINDING)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    answer = await world.ask("POST", path(PODS, "p", subresource="eviction"), eviction)
    assert answer.status == 201
    found = await world.get(PODS, "p")
    assert found["metadata"]["deletionTimestamp"]
    condition = found["status"]["conditions"][-1]
    assert {condition[key] for key in ("type", "status", "reason", "message")} == {
        "DisruptionTarget",
        "True",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    }


async def test_an_eviction_leaves_the_first_cause_of_the_disruption(world: World) -> None:
    """KEP-3329: a DisruptionTarget condition that is True is not updated. The pod is deleted all the same."""
    first = {"type": "DisruptionTarget", "status": "True", "reason": "Mine", "message": "first"}
    await world.create(PODS, pod("p") | {"metadata": {"name": "p", "finalizers": ["example.com/hold"]}})
    stored = await world.get(PODS, "p")
    await world.ask("PUT", path(PODS, "p", subresource="status"), stored | {"status": {"conditions": [first]}})
    assert (await world.ask("POST", path(PODS, "p", subresource="eviction"), {})).status == 201
    found = await world.get(PODS, "p")
    assert found["metadata"]["deletionTimestamp"]
    [condition] = found["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("Mine", "first")


@pytest.mark.parametrize(("verb", "way"), [("POST", "exec"), ("GET", "attach"), ("PATCH", "ephemeralcontainers")])
async def test_exec_attach_and_port_forward_are_refused_with_a_message(world: World, verb: str, way: str) -> None:
    await world.create(PODS, pod("p"))
    answer = await world.ask(verb, path(PODS, "p", subresource=way), {})
    assert (answer.status, answer.body["details"]) == (404, {"kind": "pods"})
    assert answer.message.startswith(f"{way} is not served here: containers are ordinary processes")
    assert (await world.ask(verb, path(PODS, "q", subresource=way), {})).message == 'pods "q" not found'


@pytest.mark.parametrize("what", ["uid", "resourceVersion"])
async def test_an_eviction_with_another_uid_sets_no_condition(world: World, what: str) -> None:
    before = await world.create(PODS, pod("p"))
    eviction = {"deleteOptions": {"preconditions": {what: "123456"}}}
    answer = await world.ask("POST", path(PODS, "p", subresource="eviction"), eviction)
    assert answer.status == 409
    assert await world.get(PODS, "p") == before


async def test_an_eviction_with_a_resource_version_succeeds(world: World) -> None:
    await world.create(PODS, pod("p"))
    await world.ask("POST", path(PODS, "p", subresource="binding"), BINDING)
    meta = (await world.get(PODS, "p"))["metadata"]
    conditions = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    eviction = {"deleteOptions": {"preconditions": conditions}}
    answer = await world.ask("POST", path(PODS, "p", subresource="eviction"), eviction)
    assert answer.status == 201
    assert (await world.get(PODS, "p"))["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_a_pod_disruption_budget_is_refused(world: World, verb: str) -> None:
    """Evictions are not held back here, and a stored budget would suggest it."""
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    answer = await world.ask(verb, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == "this cluster has no PodDisruptionBudgets: nothing limits evictions"


async def test_a_dry_eviction_changes_nothing(world: World) -> None:
    before = await world.create(PODS, pod("p"))
    answer = await world.ask("POST", path(PODS, "p", subresource="eviction"), {}, dryRun="All")
    assert answer.status == 201
    assert await world.get(PODS, "p") == before


class LogSource:
    """A log of three lines; records how it was opened."""

    def __init__(self) -> None:
        self.asked: tuple[str, str, LogOptions] | None = None
        self.closed = False

    async def open(self, pod: Any, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        self.asked = pod["metadata"]["name"], container, options
        try:
            for line in (b"one\n", b"two\n", b"three\n"):
                yield line
        finally:
            self.closed = True


async def test_logs_come_from_the_log_source() -> None:
    lines = LogSource()
    world = World(logs=lines)
    await world.create(PODS, pod("p"))
    await world.ask("POST", path(PODS, "p", subresource="binding"), BINDING)
    query = {"tailLines": "5", "follow": "true", "timestamps": "0", "sinceTime": "2026-01-01T00:00:00Z"}
    answer = await world.server.handle(ServerRequest("GET", path(PODS, "p", subresource="log"), query))
    assert isinstance(answer, Stream)
    assert answer.headers["Content-Type"] == "text/plain"
    assert await anext(answer.chunks) == b"one\n"
    await answer.chunks.aclose()
    assert lines.closed
    since = datetime(2026, 1, 1, tzinfo=UTC)
    assert lines.asked == ("p", "main", LogOptions(follow=True, tail_lines=5, since_time=since))


async def test_an_unbound_pod_has_an_empty_log() -> None:
    world = World(logs=LogSource())
    await world.create(PODS, pod("p"))
    answer = await world.server.handle(ServerRequest("GET", path(PODS, "p", subresource="log")))
    assert isinstance(answer, Response)
    assert (answer.status, answer.body) == (204, b"")


async def test_access_reviews_allow_everything(world: World) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "delete", "resource": "pods"}}}
    answer = await world.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert answer.status == 201
    assert answer.body["status"]["allowed"] is True
    answer = await world.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert answer.body["status"]["userInfo"]["username"] == "admin"


async def test_access_reviews_are_accepted_in_protobuf(world: World) -> None:
    target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await world.ask("POST", target, b"k8s", content_type="application/vnd.kubernetes.protobuf")
    assert answer.status == 201
    assert (answer.body["kind"], answer.body["status"]["allowed"]) == ("SelfSubjectAccessReview", True)
