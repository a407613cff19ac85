"""Every scenario ends the same under kube-controller-manager's Job controller and under ours."""

from __future__ import annotations

import asyncio

import pytest

from tests.control_plane.jobs.arena import Arena
from tests.control_plane.jobs.history import History
from tests.control_plane.jobs.match import Comparison, compare
from tests.control_plane.jobs.scenarios import ALL
from tests.control_plane.server import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def comparisons(request: pytest.FixtureRequest, plane: ControlPlane) -> dict[str, Comparison]:
    """All chosen scenarios, played at once: each of them mostly waits."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    chosen = [call.params["scenario"] for call in calls if call is not None and "scenario" in call.params]

    async def play() -> list[Comparison]:
        async with Arena.open(plane) as arena:
            return await compare(arena, chosen, "scenario")

    return {found.history.name: found for found in asyncio.run(play())}


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_job_cannot_tell_which_controller_runs_it(scenario: History, comparisons: dict[str, Comparison]) -> None:
    found = comparisons[scenario.name]
    assert not found.differences, str(found)


def test_scenarios_have_names_of_their_own() -> None:
    assert len({scenario.name for scenario in ALL}) == len(ALL)
