"""Objects without a namespace in the memory of a manager: by the API server's rules, beside those of a cluster."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, RESOURCE_FLAVORS
from queue_manager.api.types import ClusterQueue, LocalQueue, Namespace
from queue_manager.cli.cluster_object_files import read_cluster_objects
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.configuration import KueueConfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.local.cluster_objects import ClusterObjectServer
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.waiting import until

FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
"""
QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team}
spec:
  cohort: teams
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 4}]}]
"""
WRONG = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources:
      - {name: memory, nominalQuota: -1}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
vlaue: 7
"""
MANY = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: Team}
spec:
  cohortNam: x
  queueingStrategy: Fifo
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: absent, resources: [{name: memory, nominalQuota: -1}]}]
  preemption: {reclaimWithinCohort: Never, borrowWithinCohort: {policy: LowerPriority}}
---
kind: ClusterQueue
metadata: {name: two}
---
apiVersion: kueue.x-k8s.io/v1beta2
metadata: {name: three}
---
just text
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
spec: {}
spec: {}
"""


async def mistakes(path: Path) -> list[str]:
    with pytest.raises(CommandRefused) as caught:
        await read_cluster_objects(str(path), KueueConfig())
    assert caught.value.code == EXIT_NEVER
    heading, *lines = str(caught.value).splitlines()
    assert heading == "the cluster objects cannot be used:"
    return [line.strip().removeprefix(f"{path.parent if path.suffix else path}/") for line in lines]


async def test_every_mistake_has_its_file_line_and_field(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(FLAVOR)
    (tmp_path / "b.yaml").write_text(WRONG)
    assert await mistakes(tmp_path) == [
        "b.yaml:10: spec.resourceGroups[0].flavors[0].resources[0].name: "
        'Invalid value: "memory": must match the name in coveredResources',
        "b.yaml:10: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: "
        'Invalid value: "-1": must be greater than or equal to 0',
        "b.yaml:15: vlaue: unknown field",
        "b.yaml:12: value: Required value",
    ]


async def test_mistakes_of_all_stages_of_the_api_server_are_reported_together(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(MANY)
    quota = "spec.resourceGroups[0].flavors[0].resources[0]"
    beginnings = [
        "a.yaml:18: a manifest is a mapping with apiVersion and kind",
        "a.yaml:24: spec is a duplicate key; first given in line 23",
        "a.yaml:5: spec.cohortNam: unknown field",
        'a.yaml:3: metadata.name: Invalid value: "Team": ',
        'a.yaml:6: spec.queueingStrategy: Unsupported value: "Fifo": ',
        "a.yaml:10: spec.preemption: Invalid value: reclaimWithinCohort=Never",
        f'a.yaml:9: {quota}.name: Invalid value: "memory": must match',
        f'a.yaml:9: {quota}.nominalQuota: Invalid value: "-1": ',
        "a.yaml:9: spec.resourceGroups[0].flavors[0].name: ResourceFlavor absent is not given",
        "a.yaml:12: ClusterQueue two: apiVersion is missing (kueue.x-k8s.io/v1beta2)",
        "a.yaml:15: three: kind is missing",
    ]
    found = await mistakes(file)
    assert len(found) == len(beginnings), found
    for beginning in beginnings:
        assert any(line.startswith(beginning) for line in found), (beginning, found)


async def test_another_kind_and_an_object_given_twice_are_mistakes(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(FLAVOR)
    (tmp_path / "b.yaml").write_text(f"{FLAVOR}---\napiVersion: v1\nkind: Secret\n")
    twice, secret = await mistakes(tmp_path)
    assert twice == f"b.yaml:3: ResourceFlavor default is given by {tmp_path}/a.yaml:3 already"
    assert secret.startswith("b.yaml:6: v1 Secret: not a kind that can be given here; give ClusterQueue, ")


@pytest.mark.parametrize("text", ["", "# to be written\n", FLAVOR])
async def test_objects_without_a_cluster_queue_are_a_mistake(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert await mistakes(file) == ["a.yaml: has no ClusterQueue"]


async def test_what_would_keep_a_cluster_queue_inactive_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{QUEUE}  admissionChecks: [budget]\n")
    strategy = "  admissionChecksStrategy:\n    admissionChecks:\n    - name: budget\n"
    queue = QUEUE.replace("v1beta1", "v1beta2").replace("cohort:", "cohortName:").replace("team}", "other}")
    (tmp_path / "b.yaml").write_text(queue + strategy)
    assert await mistakes(tmp_path) == [
        "a.yaml:8: spec.resourceGroups[0].flavors[0].name: ResourceFlavor default is not given",
        "a.yaml:9: spec.admissionChecks[0]: an AdmissionCheck cannot be given here",
        "b.yaml:8: spec.resourceGroups[0].flavors[0].name: ResourceFlavor default is not given",
        "b.yaml:11: spec.admissionChecksStrategy.admissionChecks[0].name: an AdmissionCheck cannot be given here",
    ]


async def test_both_versions_are_read_as_the_one_that_controllers_use(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{FLAVOR}---\n{QUEUE}")
    objects = await read_cluster_objects(str(tmp_path), KueueConfig())
    queue = await objects.client.get(CLUSTER_QUEUES, "", "team", type=ClusterQueue)
    assert queue.spec.cohort_name == "teams"


def test_caches_have_the_objects_of_memory_and_of_the_cluster() -> None:
    """A runtime on the transport: kinds without a namespace from memory, LocalQueues and labels from the cluster."""

    async def scenario() -> None:
        async with World(script=None) as world:
            await world.client.create(CLUSTER_QUEUES, "", {"metadata": {"name": "of-others"}, "spec": {}})
            await world.client.create(NAMESPACES, "", {"metadata": {"name": "team", "labels": {"a": "1"}}})
            await world.client.create(LOCAL_QUEUES, "team", {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "q"}})
            objects = await ClusterObjectServer.start(())
            await objects.client.create(CLUSTER_QUEUES, "", {"metadata": {"name": "q"}, "spec": {}})
            await objects.read_namespaces(world.client, ["team"])
            transport = objects.beside(world.client.transport)
            runtime = Runtime(transport, SystemClock(), random.Random(0), namespaces=["team"], silence=None)
            queues, local = runtime.cache(CLUSTER_QUEUES, ClusterQueue), runtime.cache(LOCAL_QUEUES, LocalQueue)
            namespaces = runtime.cache(NAMESPACES, Namespace)
            async with runtime:
                assert [queue.metadata.name for queue in queues] == ["q"]
                assert [queue.metadata.name for queue in local] == ["lq"]
                assert namespaces.get("", "team").metadata.labels.items() >= {"a": "1"}.items()
                await world.client.patch(NAMESPACES, "", "team", {"metadata": {"labels": {"a": "2", "b": "x"}}})
                await objects.read_namespaces(world.client, ["team"])
                await until(lambda: is_labelled(namespaces.get("", "team")), "the new labels are in the cache")
                await runtime.client.patch(CLUSTER_QUEUES, "", "q", {"metadata": {"labels": {"x": "y"}}})
            assert [each["metadata"]["name"] for each in await world.client.list(CLUSTER_QUEUES)] == ["of-others"]
            assert await RestClient(transport).list(RESOURCE_FLAVORS) == []

    run_virtual(scenario())


async def is_labelled(namespace: Namespace | None) -> bool:
    return namespace is not None and namespace.metadata.labels.items() >= {"a": "2", "b": "x"}.items()
