"""`usefixtures("place")`: the stories of a file are told on the embedded and on the real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from tests.control_plane.conftest import install_kinds
from tests.control_plane.server import ControlPlane
from tests.control_plane.webhooks import Webhooks
from tests.local.queue import places, real

BOTH = ["embedded", pytest.param("real", marks=pytest.mark.control_plane)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        in_virtual_time = metafunc.definition.get_closest_marker("virtual_time")
        metafunc.parametrize("place", BOTH[:1] if in_virtual_time else BOTH, indirect=True)


@pytest.fixture(scope="module")
def webhooks(
    control_plane: ControlPlane, controllers: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Webhooks]:
    """The real server with the queue's kinds and rules, empty."""
    install_kinds(control_plane)
    hooks = Webhooks.at_some_port(tmp_path_factory.mktemp("webhooks"))
    with asyncio.Runner() as loop:
        prepared = real.prepared(control_plane, hooks)
        loop.run(prepared.__aenter__())
        yield hooks
        loop.run(prepared.__aexit__(None, None, None))


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[places.Place]:
    """Where the test's story is told."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        places.choose(places.Real(partial(real.stage, plane, request.getfixturevalue("webhooks"))))
    else:
        places.choose(places.Embedded())
    yield places.here()
    places.leave()
