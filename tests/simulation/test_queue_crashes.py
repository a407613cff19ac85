"""The queue's controllers are killed before and after every single write, started again, and nothing is lost.

Each story is first told undisturbed, and its writes are counted. Then it is told again for each of them, with
all controllers of the queue dying right before, or right after, that write reached the store; half a second
later they start anew on what is there. The end must be the same, and the invariants must hold all the way.
"""

from __future__ import annotations

import pytest

from queue_manager.api.resources import JOBS, WORKLOADS
from queue_manager.simulation.virtual import run_virtual
from tests.local.queue.cluster import NS, Cluster
from tests.simulation.deaths import NEVER, SHORT, Death, Story, is_true, tell, until_workload


async def admitted_and_finished(c: Cluster) -> None:
    await c.queues("2")
    c.outcomes["a"] = SHORT
    await c.submit("a")


async def evicted_and_requeued(c: Cluster) -> None:
    await c.queues("2")
    c.outcomes |= {"a": NEVER, "b": NEVER}
    await c.submit("a", "2")
    await c.submit("b", "1")
    await until_workload(c, "a", lambda w: (w["status"].get("requeueState") or {}).get("count") == 1)
    c.outcomes |= {"a": SHORT, "b": SHORT}


async def deactivated_and_reactivated(c: Cluster) -> None:
    await c.queues("2")
    c.outcomes["a"] = NEVER
    await c.submit("a")
    await until_workload(c, "a", lambda w: w["spec"]["active"] is False and "admission" not in w["status"])
    c.outcomes["a"] = SHORT
    await _set_active(c, "a", True)


async def switched_off_and_on_by_its_user(c: Cluster) -> None:
    await c.queues("2")
    await c.submit("a")
    await until_workload(c, "a", lambda w: is_true(w, "PodsReady"))
    await _set_active(c, "a", False)
    await until_workload(c, "a", lambda w: "admission" not in w["status"])
    await _set_active(c, "a", True)


async def deleted_while_another_waits(c: Cluster) -> None:
    await c.queues("2")
    await c.submit("a", "2")
    await c.submit("b", "2")
    await until_workload(c, "a", lambda w: is_true(w, "PodsReady"))
    await c.client.delete(JOBS, NS, "a", propagation="Background")


STORIES: tuple[Story, ...] = (
    admitted_and_finished,
    evicted_and_requeued,
    deactivated_and_reactivated,
    switched_off_and_on_by_its_user,
    deleted_while_another_waits,
)


async def _set_active(c: Cluster, job: str, active: bool) -> None:
    name = (await c.workload(job))["metadata"]["name"]
    await c.client.patch(WORKLOADS, NS, name, {"spec": {"active": active}})


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_death_at_any_write_changes_nothing_about_the_end(story: Story) -> None:
    undisturbed = run_virtual(tell(story, Death()))
    for at in range(undisturbed.writes):
        for applied in (False, True):
            end = run_virtual(tell(story, Death(at, applied)))
            assert end.struck
            assert end.objects == undisturbed.objects, f"killed {'after' if applied else 'before'} write {at}"
