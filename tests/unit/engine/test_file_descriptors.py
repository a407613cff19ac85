"""The limit of file descriptors of a program, and the share of connections."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from queue_manager.engine import file_descriptors
from queue_manager.engine.file_descriptors import MAX_DESCRIPTORS

INFINITY = resource.RLIM_INFINITY
Limits = tuple[int, int]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[Limits], list[Limits]]:
    """Start with these limits, soft and hard; returns all limits that are set afterwards."""

    def begin(first: Limits) -> list[Limits]:
        held = [first]
        monkeypatch.setattr(resource, "getrlimit", lambda which: held[-1])
        monkeypatch.setattr(resource, "setrlimit", lambda which, limits: held.append(limits))
        return held

    return begin


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 4096), (4096, 4096)),
        ((1024, MAX_DESCRIPTORS * 16), (MAX_DESCRIPTORS, MAX_DESCRIPTORS * 16)),
        ((1024, INFINITY), (MAX_DESCRIPTORS, INFINITY)),
        ((1024, 1024), (1024, 1024)),
        ((MAX_DESCRIPTORS * 2, MAX_DESCRIPTORS * 16), (MAX_DESCRIPTORS * 2, MAX_DESCRIPTORS * 16)),
        ((INFINITY, INFINITY), (INFINITY, INFINITY)),
    ],
)
def test_the_soft_limit_is_raised_and_never_lowered(
    limits: Callable[[Limits], list[Limits]], before: Limits, after: Limits
) -> None:
    held = limits(before)
    file_descriptors.raise_limit()
    assert held[-1] == after


@pytest.mark.parametrize(
    ("soft", "most"),
    [(1024, 512), (MAX_DESCRIPTORS, MAX_DESCRIPTORS - 512), (256, 64), (INFINITY, MAX_DESCRIPTORS - 512)],
)
def test_connections_leave_a_reserve(limits: Callable[[Limits], list[Limits]], soft: int, most: int) -> None:
    limits((soft, INFINITY))
    assert file_descriptors.for_connections() == most
