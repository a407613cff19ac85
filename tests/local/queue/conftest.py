"""`usefixtures("environment")`: the tests of a file run on the embedded and on the real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from tests.control_plane.conftest import install_kinds
from tests.control_plane.server import ControlPlane
from tests.control_plane.webhooks import Webhooks
from tests.local.queue import environments, real_cluster

BOTH = ["embedded", pytest.param("real", marks=pytest.mark.control_plane)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "environment" in metafunc.fixturenames:
        metafunc.parametrize("environment", BOTH, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out, on the real server, what is marked VIRTUAL_TIME, whether all of a test or one of its cases."""
    items[:] = [item for item in items if not all(map(item.get_closest_marker, ("virtual_time", "control_plane")))]


@pytest.fixture(scope="module")
def webhooks(
    control_plane: ControlPlane, controllers: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Webhooks]:
    """The real server with the queue's kinds and admission rules, empty."""
    install_kinds(control_plane)
    hooks = Webhooks.at_some_port(tmp_path_factory.mktemp("webhooks"))
    with asyncio.Runner() as loop:
        prepared = real_cluster.prepared(control_plane, hooks)
        loop.run(prepared.__aenter__())
        yield hooks
        loop.run(prepared.__aexit__(None, None, None))


@pytest.fixture
def environment(request: pytest.FixtureRequest) -> Iterator[environments.Environment]:
    """The environment of the test: the embedded server in virtual time, or the real one."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        environments.use(environments.Real(partial(real_cluster.running, plane, request.getfixturevalue("webhooks"))))
    else:
        environments.use(environments.Embedded())
    yield environments.current()
    environments.reset()
