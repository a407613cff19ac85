"""Every scenario ends the same under kube-controller-manager's Job controller and under ours."""

from __future__ import annotations

import asyncio

import pytest

from tests.control_plane.jobs.history import History
from tests.control_plane.jobs.lockstep import Comparison, compare
from tests.control_plane.jobs.scenarios import ALL
from tests.control_plane.jobs.shared_server import SharedServer
from tests.control_plane.server import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def comparisons(request: pytest.FixtureRequest, plane: ControlPlane) -> dict[str, Comparison]:
    """The results of all selected scenarios, played at once, since each mostly waits."""
    here = (item for item in request.session.items if item.nodeid.startswith(f"{request.node.nodeid}::"))
    calls = (getattr(item, "callspec", None) for item in here)
    chosen = [call.params["scenario"] for call in calls if call is not None and "scenario" in call.params]

    async def play() -> list[Comparison]:
        async with SharedServer.open(plane) as shared:
            return await compare(shared, chosen, "scenario")

    return {found.history.name: found for found in asyncio.run(play())}


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_a_scenario_ends_the_same_under_both_controllers(scenario: History, comparisons: dict[str, Comparison]) -> None:
    found = comparisons[scenario.name]
    assert not found.differences, str(found)


def test_names_of_scenarios_are_unique() -> None:
    assert len({scenario.name for scenario in ALL}) == len(ALL)
