"""The LocalQueue that `sluice run` takes without -q, and the priority classes that it accepts."""

from __future__ import annotations

import pytest

from job_controller.model import Key
from queue_manager.api.api_resources import LOCAL_QUEUES, NAMESPACES, WORKLOAD_PRIORITY_CLASSES
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.queue_choice import check_priority_class, choose_queue
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request, Response
from tests.unit.cli.test_submit import client

__all__ = ["client"]  # a fixture


async def add_queues(client: RestClient, *names: str) -> None:
    for name in names:
        await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": name}, "spec": {"clusterQueue": "cq"}})


async def test_the_only_queue_is_the_default_and_so_is_the_one_of_that_name(client: RestClient) -> None:
    await add_queues(client, "b")
    assert await choose_queue(client, "default", None) == "b"
    await add_queues(client, "a")
    with pytest.raises(CommandRefused, match="namespace default has 2 LocalQueues: choose one with -q: a, b"):
        await choose_queue(client, "default", None)
    assert await choose_queue(client, "default", "a") == "a"
    await add_queues(client, "default")
    assert await choose_queue(client, "default", None) == "default"
    await client.create(NAMESPACES, "", {"metadata": {"name": "empty"}})
    with pytest.raises(CommandRefused, match="namespace empty has no LocalQueue"):
        await choose_queue(client, "empty", None)


async def test_a_message_names_ten_queues_and_counts_the_rest(client: RestClient) -> None:
    await add_queues(client, *(f"q{number:02}" for number in range(12)))
    with pytest.raises(CommandRefused, match="q08, q09 and 2 more, which `sluice queues` lists"):
        await choose_queue(client, "default", None)


class Forbidding:
    async def request(self, request: Request) -> Response:
        return Response(403, {}, b'{"kind": "Status", "reason": "Forbidden", "message": "forbidden"}')


async def test_a_user_who_may_not_list_queues_is_asked_for_one() -> None:
    with pytest.raises(CommandRefused, match="you may not list the LocalQueues of namespace default: name one with -q"):
        await choose_queue(RestClient(Forbidding()), "default", None)


async def test_a_priority_class_that_does_not_exist_is_refused(client: RestClient) -> None:
    queue = Key("default", "a")
    with pytest.raises(CommandRefused, match="WorkloadPriorityClass urgnt does not exist; the cluster has none"):
        await check_priority_class(client, queue, "urgnt")
    await client.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": "urgent"}, "value": 9})
    with pytest.raises(CommandRefused, match="WorkloadPriorityClass urgnt does not exist; did you mean urgent"):
        await check_priority_class(client, queue, "urgnt")
    with pytest.raises(CommandRefused, match="there are: urgent"):
        await check_priority_class(client, queue, "batch")
    await check_priority_class(client, queue, "urgent")


async def test_a_priority_class_that_the_user_may_not_see_is_not_refused() -> None:
    await check_priority_class(RestClient(Forbidding()), Key("default", "a"), "urgnt")
