"""Fixtures of pytest. They are there once Sluice is installed: pytest loads this module through its entry point.

    sluice_cluster     one cluster for the test session, and for each worker of pytest-xdist
    sluice_options     its options: a dict of arguments of `Cluster`, {} by default; override it in the top conftest.py
    sluice_namespace   a namespace of the test's own on it, with a LocalQueue `user-queue`; deleted after the test
    sluice_client      Sluice's client for Jobs in that namespace
    start_sluice       a function that starts one more cluster, with arguments of `Cluster`; it ends with the test

pytest imports this module in every project of the environment, so it imports nothing but pytest: the rest comes with
the first fixture that is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from queue_manager.client import Client
    from queue_manager.testing import Cluster


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Hide one warning of pytest-asyncio, which is installed beside Sluice in some environments.

    It warns in each project that has not set the scope of its event loops, also in one without a coroutine; with
    `filterwarnings = error` no test would run. Sluice's fixtures are synchronous and depend on no scope. pytest
    restores the filters of warnings once plugins are configured.
    """
    text = 'The configuration option "asyncio_default_fixture_loop_scope" is unset'
    warnings.filterwarnings("ignore", text, pytest.PytestDeprecationWarning)


@pytest.fixture(scope="session")
def sluice_options() -> dict[str, Any]:
    """Arguments of `queue_manager.testing.Cluster` for sluice_cluster. Override this fixture to change them."""
    return {}


@pytest.fixture(scope="session")
def sluice_cluster(sluice_options: dict[str, Any]) -> Iterator[Cluster]:
    """A Sluice cluster for the whole test session."""
    from queue_manager.testing import Cluster

    with Cluster(**sluice_options) as cluster:
        yield cluster


@pytest.fixture
def sluice_namespace(sluice_cluster: Cluster) -> Iterator[str]:
    """The name of a new namespace with a LocalQueue `user-queue`. Its Jobs end with the test."""
    from queue_manager.testing.namespaces import temporary_namespace

    with temporary_namespace(sluice_cluster) as name:
        yield name


@pytest.fixture
def sluice_client(sluice_cluster: Cluster, sluice_namespace: str) -> Client:
    """Sluice's client for Jobs in a namespace of the test's own."""
    from queue_manager.client import Client

    return Client(sluice_cluster.api_client, namespace=sluice_namespace, user=sluice_cluster.client.user)


@pytest.fixture
def start_sluice() -> Iterator[Callable[..., Cluster]]:
    """Start clusters that end with the test: `cluster = start_sluice(nodes=3, cpu="2")`."""
    from contextlib import ExitStack

    from queue_manager.testing import Cluster

    with ExitStack() as running:
        yield lambda **options: running.enter_context(Cluster(**options))
