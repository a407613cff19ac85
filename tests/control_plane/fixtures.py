"""Fixtures for all suites: one real API server per test run. Mark tests that use them `control_plane`.

A test that must not see the objects of others creates a namespace of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.control_plane.server import ControlPlane

CONTROLLERS = ("garbage-collector-controller", "namespace-controller")


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, started with the first test that needs them.

    At the end, no service account with the rights of an installation has been refused anything, in any test.
    """
    with ControlPlane.start() as plane:
        yield plane
        refused = plane.refusals()
        assert not refused, "\n".join(map(str, refused))


@pytest.fixture(scope="module")
def controllers(control_plane: ControlPlane) -> Iterator[None]:
    """kube-controller-manager with the garbage collector and the namespace controller, for the tests of one file."""
    with control_plane.controllers(*CONTROLLERS):
        yield
