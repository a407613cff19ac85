"""The LocalQueue that `sluice run` takes without -q."""

from __future__ import annotations

import pytest

from queue_manager.api.api_resources import LOCAL_QUEUES, NAMESPACES
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.queue_choice import choose_queue
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


async def test_a_user_who_may_not_list_queues_is_asked_for_one() -> None:
    class Forbidding:
        async def request(self, request: Request) -> Response:
            return Response(403, {}, b'{"kind": "Status", "reason": "Forbidden", "message": "forbidden"}')

    with pytest.raises(CommandRefused, match="you may not list the LocalQueues of namespace default: name one with -q"):
        await choose_queue(RestClient(Forbidding()), "default", None)
