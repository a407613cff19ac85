"""Fixtures of the contract suite: every test runs against the embedded and the real server."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queue_manager.api.api_resources import CRDS, JOBS, NAMESPACES, PODS
from queue_manager.engine.rest_client import RestClient
from tests.contract import servers
from tests.contract.servers import Server
from tests.contract.session import Recording, Session
from tests.control_plane.cleanup import remove_all

WORK = (JOBS, PODS)
BOTH = ["embedded", pytest.param("real", marks=pytest.mark.control_plane)]


@pytest.fixture(params=BOTH)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """An API server, with the garbage collector and the namespace controller beside it if the test module sets
    COLLECTED.
    """
    collected = getattr(request.module, "COLLECTED", False)
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "embedded":
            yield await stack.enter_async_context(servers.embedded(tmp_path, controllers=collected))
        else:
            plane = request.getfixturevalue("control_plane")
            if collected:
                request.getfixturevalue("controllers")
            yield await stack.enter_async_context(servers.real(plane))


@pytest.fixture
async def s(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Session]:
    """A session with the server, in a namespace of its own."""
    name = f"contract-{secrets.token_hex(4)}"
    test = request.node.name.replace("[embedded", "[").replace("[real", "[").replace("[-", "[").removesuffix("[]")
    session = Session(server, name, Recording(Path(request.node.path).stem.removeprefix("test_"), test))
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert (await session.ask("POST", NAMESPACES.path(), body, silent=True)).status == 201
    try:
        yield session
    finally:
        if server.name == "real":
            await remove_leftovers(session)
    if not request.node.stash.get(FAILED, False):
        session.finish()


async def remove_leftovers(session: Session) -> None:
    """Remove Jobs, pods and custom kinds: the real server also serves the tests that follow."""
    client = RestClient(session.transport)
    for resource in WORK:
        await remove_all(client, resource, session.namespace)
    for name in session.defined:
        await session.ask("DELETE", CRDS.path(name=name), silent=True)


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> object:
    report = yield
    if report.when == "call" and report.failed:
        item.stash[FAILED] = True
    return report
