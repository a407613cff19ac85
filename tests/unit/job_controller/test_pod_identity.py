"""What a pod was created for counts, whatever its annotations say later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from job_controller.labels import COMPLETION_INDEX, INDEX_FAILURE_COUNT
from job_controller.model import Pod
from job_controller.pod_facts import completion_index
from job_controller.pod_identity import PodIdentities, PodIdentity, index_in_name, initial_identity, of_annotations
from queue_manager.api.api_resources import EVENTS, PODS
from queue_manager.simulation.kubelet import PodScript
from tests.unit.job_controller.build import UID, pod
from tests.unit.job_controller.test_on_the_api_server import Cluster, always, virtually

LONG = "a" * 60


@pytest.mark.parametrize(
    ("name", "job", "index"),
    [
        ("j-0-abcde", "j", "0"),
        ("j-12-abcde", "j", "12"),
        ("a-3-4-abcde", "a-3", "4"),
        (f"{'a' * 55}-7-abcde", LONG, "7"),
        ("j-abcde", "j", None),
        ("a-3-abcde", "a-3", None),  # of a Job that is not Indexed
        ("j-01-abcde", "j", None),
        ("other-1-abcde", "j", None),
        ("j-1-", "j", None),
        ("", "j", None),
    ],
)
def test_index_in_a_name(name: str, job: str, index: str | None) -> None:
    assert index_in_name(name, job) == index


@pytest.mark.parametrize(
    ("name", "annotation", "label", "index"),
    [
        ("j-1-abcde", "1", "1", "1"),
        ("j-1-abcde", "0", "1", "1"),
        ("j-1-abcde", "0", "0", "1"),
        ("j-1-abcde", None, None, "1"),
        ("adopted", "1", None, "1"),
        ("adopted", "1", "1", "1"),
        ("adopted", "1", "0", None),
        ("adopted", None, "0", None),
        ("adopted", None, None, None),
        ("adopted", "x", "x", "x"),
    ],
)
def test_index_of_a_pod_first_seen(name: str, annotation: str | None, label: str | None, index: str | None) -> None:
    """The name counts if it has the form of the Job; else the annotation, if the label agrees."""
    labels = {COMPLETION_INDEX: label} if label is not None else {}
    seen = initial_identity(pod(name, index=annotation, labels=labels), "j")
    assert seen == PodIdentity(index, None, None)


def annotated(index: str | None = "0", failures: str | None = None, **more: Any) -> Pod:
    notes = {INDEX_FAILURE_COUNT: failures} if failures is not None else {}
    return pod("j-0-abcde", index=index, annotations=notes, **more)


def test_identities_are_kept_only_while_annotations_differ() -> None:
    known = PodIdentities()
    first, forged = annotated(failures="1"), annotated("1", failures="0")
    assert known.pod_changed(None, first) is None
    assert known.restored(UID, [first]) == [first]
    assert known.pod_changed(first, forged) == PodIdentity("0", "1", None)
    assert known.pod_changed(forged, annotated("2")) is None, "reported once"
    [restored] = known.restored(UID, [annotated("2")])
    assert of_annotations(restored.metadata.annotations) == PodIdentity("0", "1", None)
    assert known.pod_changed(annotated("2"), first) is None
    assert known._altered == {}, "the annotation is restored"
    known.pod_changed(first, forged)
    known.pod_changed(forged, None)
    assert known._altered == {}, "the pod is gone"


def test_identity_of_a_pod_adopted_by_another_job() -> None:
    """A name in the form of another Job gives no index."""
    known = PodIdentities()
    free = annotated("0", owner=None)
    adopted = annotated("3")
    assert known.pod_changed(None, free) is None
    assert known.pod_changed(free, adopted) == PodIdentity("0", None, None)
    elsewhere = annotated("3", owner="another")
    known.pod_changed(adopted, elsewhere)
    assert known.restored(UID, [elsewhere]) == [elsewhere]
    assert [completion_index(one) for one in known.restored("another", [elsewhere])] == [0]


def test_identity_of_a_created_pod_is_that_of_the_request() -> None:
    """A webhook or a user may have changed the pod before the response arrives."""
    known = PodIdentities()
    stored = annotated("1", failures="5")
    known.pod_changed(None, stored)
    known.created(UID, stored, {COMPLETION_INDEX: "0", INDEX_FAILURE_COUNT: "2"})
    [restored] = known.restored(UID, [stored])
    assert of_annotations(restored.metadata.annotations) == PodIdentity("0", "2", None)


class Forger:
    """A user who may update pods."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def running(self) -> dict[str, Any]:
        async def one() -> bool:
            return any(tree["status"]["phase"] == "Running" for tree in await self.cluster.pods())

        await self.cluster.until(one)
        return next(tree for tree in await self.cluster.pods() if tree["status"]["phase"] == "Running")

    async def forge(self, **annotations: str) -> None:
        """Change annotations of the only running pod; names without prefix, in snake case."""
        name = (await self.running())["metadata"]["name"]
        notes = {f"batch.kubernetes.io/job-{key.replace('_', '-')}": text for key, text in annotations.items()}
        await self.cluster.user.patch(PODS, "default", name, {"metadata": {"annotations": notes}})


def indexes_run(cluster: Cluster) -> list[str]:
    """The index in the name of each pod that was created, in order."""
    names = [tree["metadata"]["name"] for kind, resource, tree in cluster.history if (kind, resource) == ADDED]
    return [name.split("-")[1] for name in names]


ADDED = ("ADDED", "pods")
FORGERIES: dict[str, Callable[[Forger], Any]] = {
    "index of the next pod": lambda forger: forger.forge(completion_index="1"),
    "index out of range": lambda forger: forger.forge(completion_index="9"),
    "no number": lambda forger: forger.forge(completion_index="x"),
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "then restarted"])
def test_each_index_runs_once_though_an_annotation_is_forged(forgery: Callable[[Forger], Any], restarted: bool) -> None:
    """If annotations were believed, index 0 would run twice and index 1 never."""

    @virtually
    async def scenario() -> None:
        cluster = Cluster()
        forger = Forger(cluster)
        async with cluster.controllers(always(ends_after=30.0)):
            await cluster.submit(completions=2, parallelism=1, completionMode="Indexed")
            await forger.running()
            await asyncio.sleep(1)
            await forgery(forger)
            await asyncio.sleep(1)
            events = await cluster.user.list(EVENTS, "default")
            if not restarted:
                await cluster.finished()
        async with cluster.controllers(always(ends_after=30.0)):
            status = await cluster.finished()
        assert (status["completedIndexes"], status["succeeded"], status.get("failed", 0)) == ("0,1", 2, 0)
        assert indexes_run(cluster) == ["0", "1"]
        [message] = [event["message"] for event in events if event["reason"] == "PodAnnotationIgnored"]
        assert message.endswith('but "0" applies')

    scenario()


@pytest.mark.parametrize(("forged", "pods"), [("0", 3), ("7", 3)])
def test_index_is_retried_though_a_failure_count_is_forged(forged: str, pods: int) -> None:
    """A lower count would retry the index forever, a higher one would fail it at once."""

    @virtually
    async def scenario() -> None:
        cluster = Cluster()
        forger = Forger(cluster)

        def fails_in_the_end(tree: Pod) -> PodScript:
            return PodScript(ends_after=10.0, exit_code=1)

        async with cluster.controllers(fails_in_the_end):
            await cluster.submit(completions=1, parallelism=1, completionMode="Indexed", backoffLimitPerIndex=2)
            for _ in range(pods):
                await forger.forge(index_failure_count=forged)
                await asyncio.sleep(15)
            status = await cluster.finished()
        assert (status["failedIndexes"], status["failed"]) == ("0", pods)

    scenario()
