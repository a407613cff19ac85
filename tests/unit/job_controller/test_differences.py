"""Deviations from the built-in controller that no other test shows (DIFFERENCES.md)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import job_controller
from job_controller.api_rules.field_errors import FieldError, invalid
from job_controller.labels import COMPLETION_INDEX, OWN_TRACKING_FINALIZER, TRACKING_FINALIZER
from job_controller.model import Pod
from job_controller.options import JobControllerOptions
from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.engine.rest_client import RestClient
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.admission_plugin_protocol import AdmissionReview
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.simulation.kubelet import PodScript
from tests.unit.job_controller.build import created, deleted, indexed, job, pod, run
from tests.unit.job_controller.test_on_the_api_server import Cluster, always, virtually
from tests.unit.job_controller.world import World

TABLE = Path(job_controller.__file__).parent / "DIFFERENCES.md"
TESTS = Path(__file__).parent


def test_each_row_names_a_test_that_exists() -> None:
    rows = [line for line in TABLE.read_text().splitlines() if re.match(r"\| \d+ ", line)]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        named = re.findall(r"`(test_\w+)::(test_\w+)`", row)
        assert named, row
        for file, test in named:
            assert re.search(rf"def {test}\(", (TESTS / f"{file}.py").read_text()), f"{file}::{test}"


def test_each_reference_to_a_row_names_a_word_of_it() -> None:
    """`see row 25, `PodAnnotationIgnored``: whoever renumbers the rows without their references finds them here."""
    text = TABLE.read_text()
    rows = dict(re.findall(r"^\| (\d+) (.*)$", text, re.MULTILINE))
    for reference in re.findall(r"\brow .*", text):
        named = re.match(r"row (\d+), `(\w+)`", reference)
        assert named, reference
        assert f"`{named[2]}`" in rows[named[1]], reference


def test_each_row_that_a_test_names_is_shown_by_it() -> None:
    """`Row 12: ...` in a docstring of this file stands in a test that row 12 names."""
    rows = dict(re.findall(r"^\| (\d+) (.*)$", TABLE.read_text(), re.MULTILINE))
    shown = re.findall(r'def (test_\w+)\(.*\n    """Row (\d+)\b', Path(__file__).read_text())
    assert len(shown) >= 7
    for test, number in shown:
        assert f"`test_differences::{test}`" in rows[number], test


def test_each_row_about_a_design_names_what_exists() -> None:
    """Each row names a file of the repository and a text in it."""
    rows = [
        line.split(" | ") for line in TABLE.read_text().splitlines() if re.match(r"\| (KEP-\d+|Job proposal) ", line)
    ]
    assert {row[0] for row in rows} == {"| KEP-1282", "| KEP-2232", "| KEP-3850", "| KEP-3329", "| Job proposal"}
    for row in rows:
        assert len(row) == 5, row
        named = re.findall(r"`([\w/.]+)::([^`]+)`", row[-1])
        assert named, row
        for file, text in named:
            assert text in (TABLE.parents[1] / file).read_text(), f"{file}::{text}"


@virtually
async def test_job_completes_within_200_ms_of_its_last_pod() -> None:
    """Row 1: the built-in controller syncs one second after the first change."""
    cluster = Cluster()
    async with cluster.controllers(always(ends_after=5.0)):
        await cluster.submit()

        async def over() -> bool:
            return any(pod["status"]["phase"] == "Succeeded" for pod in await cluster.pods())

        await cluster.until(over)
        began = cluster.clock.now()
        await cluster.finished()
        assert (cluster.clock.now() - began).total_seconds() <= 0.2


SPEC_CHANGES: list[tuple[dict[str, Any], int]] = [
    ({"parallelism": 8, "completions": 8}, 8),
    ({"parallelism": 3, "completions": 3}, 3),
    ({"suspend": True}, 0),
    ({"suspend": False}, 3),
]


@virtually
async def test_a_change_of_the_spec_does_not_wait_for_the_batch_of_pod_changes() -> None:
    """Row 1: with both controllers only changes of pods wait for the window, which is ten seconds here."""
    cluster = Cluster()
    begun: set[str] = set()

    def one_is_restless(pod: Pod) -> PodScript:
        """Pods of index 0 fail every second, so that there is always a batch under way."""
        begun.add(pod.metadata.name)
        index = pod.metadata.annotations[COMPLETION_INDEX]
        return PodScript(ends_after=1.0, exit_code=1) if index == "0" else PodScript(ends_after=None)

    options = JobControllerOptions(sync_batch_period=10.0, backoff_base=0.0)
    async with cluster.controllers(one_is_restless, options):
        await cluster.submit(parallelism=5, completions=5, completionMode="Indexed", backoffLimit=1000)
        for change, pods in SPEC_CHANGES:
            await asyncio.sleep(25)
            await cluster.user.patch(JOBS, "default", "j", {"spec": change})
            await asyncio.sleep(0.001)
            living = [pod for pod in await cluster.pods() if pod["status"]["phase"] in ("Pending", "Running")]
            assert len([pod for pod in living if "deletionTimestamp" not in pod["metadata"]]) == pods, change
    assert len(begun) < 30, "failures of index 0 are gathered, so it is not tried a hundred times"


def test_a_failure_that_is_reported_late_does_not_shorten_the_wait() -> None:
    """Row 2: the second failure finished before the first one seen."""
    first = run(job(), pod("seen", "Failed", ended=100), now=100)
    late = run(job(), pod("seen", "Failed", ended=100), pod("late", "Failed", ended=1), now=105, memory=first.memory)
    assert (first.requeue_after, late.requeue_after) == (10, 15)


class Refusing:
    """An admission plugin that rejects pods while it is enabled, and counts requests by time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.on = True
        self.asked: Counter[float] = Counter()

    def mutate(self, review: AdmissionReview) -> list[FieldError] | None:
        if review.resource != PODS or review.operation != "CREATE" or review.subresource:
            return None
        self.asked[asyncio.get_running_loop().time()] += 1
        return [invalid("spec", "x", "refused")] if self.on else None

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        return []


@virtually
async def test_pods_are_created_at_full_speed_until_one_is_refused() -> None:
    """Row 12: fifty at once; after a failure one, then two, four and so on."""
    cluster = Cluster()
    refusing = Refusing(cluster)
    cluster.server = ApiServer(cluster.store, KindRegistry.builtin(), cluster.clock, [refusing])
    cluster.user = RestClient(LocalTransport(cluster.server, "user"))
    async with cluster.controllers(always(ends_after=None)):
        await cluster.submit(parallelism=100, completions=100)
        await asyncio.sleep(3.5)
        first, *others = refusing.asked.values()
        assert first == JobControllerOptions().writes_in_flight
        assert others
        assert set(others) == {1}
        refusing.on = False

        async def all_there() -> bool:
            return len(await cluster.pods()) == 100

        await cluster.until(all_there, seconds=30)


def test_a_creation_that_failed_is_counted_as_failed_only() -> None:
    """Row 13."""
    world = World({"parallelism": 2, "completions": 2, "backoffLimit": 6})
    world.refusals = {1}
    counted: Counter[str] = Counter()

    def inc(name: str, labels: Mapping[str, str], by: float = 1) -> None:
        if name == "job_controller_job_pods_creation_total":
            counted[labels["status"]] += int(by)

    world.inc = inc  # type: ignore[method-assign]
    world.work()
    world.time = world.time.replace(second=30)
    world.work()
    assert counted == {"failed": 1, "succeeded": 2}


def test_of_too_many_pods_those_go_first_whose_index_is_settled() -> None:
    """Row 15: the ready pod of a settled index is deleted before one that has just started."""
    stored = {"completedIndexes": "0", "succeeded": 1}
    pods = [pod("done", index=0, ready=True), pod("begun", "Pending", index=1), pod("more", index=2)]
    assert deleted(run(indexed(3, parallelism=2, status=stored), *pods)) == ["done"]


def test_pod_of_a_settled_index_makes_room_for_an_open_one() -> None:
    """Row 15: the number of pods is right, but one of them has a settled index."""
    stored = {"completedIndexes": "0", "succeeded": 1}
    pods = [pod("again", index=0), pod("second", index=2)]
    assert deleted(run(indexed(3, status=stored), *pods)) == ["again"]
    assert created(run(indexed(3, status=stored), pods[1])) == [1]


@pytest.mark.parametrize(
    ("manage", "by", "finalizer"),
    [("All", None, TRACKING_FINALIZER), ("ManagedBy", "sluice/job-controller", OWN_TRACKING_FINALIZER)],
)
def test_pods_left_behind_are_released_at_start_whoever_tracked_them(
    manage: str, by: str | None, finalizer: str
) -> None:
    """With either finalizer: the built-in one when replacing the built-in controller, our own beside it."""

    @virtually
    async def scenario() -> None:
        cluster, options = Cluster(), JobControllerOptions(manage=manage)  # type: ignore[arg-type]
        async with cluster.controllers(always(ends_after=None), options):
            await cluster.submit(**({"managedBy": by} if by else {}))
            await asyncio.sleep(5)
            [made] = await cluster.pods()
            assert made["metadata"]["finalizers"] == [finalizer]
        await cluster.user.delete(JOBS, "default", "j", propagation="Background")
        assert len(await cluster.pods()) == 1
        async with cluster.controllers(always(ends_after=None), options):

            async def gone() -> bool:
                return not await cluster.pods()

            await cluster.until(gone, seconds=60)

    scenario()
