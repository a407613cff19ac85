"""Twenty recordings of the real Kueue, replayed by Sluice on the real API server in the recorded times."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from tests.control_plane.server import ControlPlane
from tests.control_plane.webhooks import Webhooks
from tests.local.queue.real_replay import real_world, with_namespaces
from tests.local.queue.replay import Played, compared, load, play
from tests.local.queue.test_better_than_kueue import I07_WARNING

pytestmark = [pytest.mark.control_plane, pytest.mark.real_time]

TWENTY = (
    *("a01", "a07", "b05", "b06", "c01", "c02", "c08", "d02", "e02", "f04"),
    *("g05", "g14", "i03", "i05", "i07", "j01", "j13", "k04", "m04", "m06"),
)
"""Of each group that is about readiness and the life of Workloads; together less than two minutes long."""


def test_there_are_twenty_recordings() -> None:
    assert len(set(TWENTY)) == 20


@pytest.fixture(scope="module")
def scene(control_plane: ControlPlane, webhooks: Webhooks) -> Iterator[Webhooks]:
    with asyncio.Runner() as loop:
        namespaces = with_namespaces(control_plane)
        loop.run(namespaces.__aenter__())
        yield webhooks
        loop.run(namespaces.__aexit__(None, None, None))


@pytest.mark.parametrize("name", TWENTY)
async def test_the_recording_is_reproduced(name: str, control_plane: ControlPlane, scene: Webhooks) -> None:
    trace = load(name)
    expected: dict[str, object] = I07_WARNING if name == "i07" else {}

    def differences(played: Played) -> dict[str, tuple[object, object]]:
        return compared(trace, played, in_real_time=True)

    played = await play(
        trace, partial(real_world, control_plane, scene), lambda played: differences(played) == expected
    )
    assert differences(played) == expected
