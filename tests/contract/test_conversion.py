"""The queue's own kinds in two versions: the real server calls our conversion webhook, the embedded one converts."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api import keys
from queue_manager.api.api_resources import CLUSTER_QUEUES, CRDS, LOCAL_QUEUES, WORKLOADS, Resource
from queue_manager.api.crd_conversion import converted_by
from queue_manager.api.crd_generation import crd
from queue_manager.api.models import KINDS
from queue_manager.api.queue_admission import QueueAdmission
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import JSON_PATCH, MERGE_PATCH
from tests.contract.servers import Embedded
from tests.contract.session import Answer, Session
from tests.contract.test_kubectl import Kubectl, manifest
from tests.control_plane import provide
from tests.control_plane.server import ControlPlane
from tests.control_plane.webhooks import Webhooks, registered

Json = Any
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OLD_CLUSTER_QUEUES = Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", namespaced=False)
OLD_LOCAL_QUEUES = Resource("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue")
OLD_WORKLOADS = Resource("kueue.x-k8s.io", "v1beta1", "workloads", "Workload")
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
GROUPS = [
    {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "9", "borrowingLimit": "1"}]}],
    }
]


REFUSED = {"cohort": "c", "fairSharing": {"weight": "-1"}}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A real server of its own: the definitions of the shared one have no webhook."""
    with ControlPlane.start() as plane:
        yield plane


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Webhooks:
    return Webhooks.at_some_port(tmp_path_factory.mktemp("webhooks"))


@pytest.fixture
async def q(s: Session, hooks: Webhooks) -> AsyncIterator[Session]:
    """A session with a server that serves the queue's kinds in both versions."""
    async with hooks.serve([QueueAdmission()]):
        for kind in KINDS:
            body = converted_by(crd(kind), hooks.client_config("convert"))
            await s.ask("POST", CRDS.path(), body, silent=True)
        for kind in KINDS:
            for version in ("v1beta1", "v1beta2"):
                resource = Resource(keys.GROUP, version, kind.plural, kind.__name__, kind.namespaced)
                await s.until(lambda resource=resource: served(s, resource))
        yield s


@contextlib.asynccontextmanager
async def ruled(s: Session, hooks: Webhooks) -> AsyncIterator[None]:
    """Admission rules for v1beta2: webhooks of the real server, plugins of the embedded one."""
    if isinstance(s.server, Embedded):
        s.server.admission.append(QueueAdmission())
        yield
        return

    async def refuses() -> bool:
        answer = await send(s, CLUSTER_QUEUES, cluster_queue(s, REFUSED, "v1beta2"), dryRun="All", silent=True)
        return answer.status == 403

    async with registered(RestClient(s.transport), hooks):
        await s.until(refuses)
        yield


async def served(s: Session, resource: Resource) -> bool:
    return (await s.list(resource, silent=True)).status == 200


def cluster_queue(s: Session, spec: Json, version: str = "v1beta1", **meta: Any) -> Json:
    """Named after the namespace of the test: the real server keeps it."""
    head = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "ClusterQueue"}
    return {**head, "metadata": {"name": s.namespace, **meta}, "spec": spec}


def workload(spec: Json, version: str = "v1beta1") -> Json:
    pods = {"podSets": [{"name": "main", "count": 2, "template": TEMPLATE}], "queueName": "q"}
    head = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "Workload", "metadata": {"name": "w"}}
    return {**head, "spec": {**pods, **spec}}


async def apply(s: Session, who: str, obj: Json, **options: Any) -> Answer:
    resource = OLD_CLUSTER_QUEUES if obj["apiVersion"].endswith("beta1") else CLUSTER_QUEUES
    return await s.patch(resource, s.namespace, obj, APPLY, fieldManager=who, **options)


async def send(s: Session, resource: Resource, obj: Json, **options: Any) -> Answer:
    return await s.ask("POST", s.path(resource), obj, **options)


# --- reading and writing ---------------------------------------------------------------------------------------------


async def test_a_cluster_queue_is_served_in_both_versions(q: Session) -> None:
    spec = {"cohort": "c", "admissionChecks": ["a", "b"], "resourceGroups": GROUPS, "namespaceSelector": {}}
    await send(q, OLD_CLUSTER_QUEUES, cluster_queue(q, {**spec, "flavorFungibility": {"whenCanBorrow": "Borrow"}}))
    for resource in (OLD_CLUSTER_QUEUES, CLUSTER_QUEUES):
        await q.get(resource, q.namespace)
        await q.get(resource, q.namespace, accept=TABLE)
        await q.list(resource, fieldSelector=f"metadata.name={q.namespace}")
        async with q.watch(resource, fieldSelector=f"metadata.name={q.namespace}") as watch:
            await watch.take(1)
    await q.patch(CLUSTER_QUEUES, q.namespace, {"spec": {"cohortName": "d"}}, MERGE_PATCH)
    await q.patch(OLD_CLUSTER_QUEUES, q.namespace, {"spec": {"admissionChecks": ["b"]}}, MERGE_PATCH)
    await q.get(CLUSTER_QUEUES, q.namespace)
    await q.delete(OLD_CLUSTER_QUEUES, q.namespace)


async def test_a_write_in_v1beta1_keeps_what_only_v1beta2_has(q: Session) -> None:
    policy = {"migration": {"mode": "TryPreferredFlavors"}}
    checks = {"admissionChecks": [{"name": "a", "onFlavors": ["f"]}]}
    spec = {"cohortName": "c", "concurrentAdmissionPolicy": policy, "admissionChecksStrategy": checks}
    await send(q, CLUSTER_QUEUES, cluster_queue(q, spec, "v1beta2"))
    await q.get(OLD_CLUSTER_QUEUES, q.namespace)
    await q.patch(OLD_CLUSTER_QUEUES, q.namespace, {"spec": {"cohort": "d"}}, MERGE_PATCH)
    seen = await q.get(OLD_CLUSTER_QUEUES, q.namespace)
    seen.body["spec"]["cohort"] = "e"
    await q.ask("PUT", q.path(OLD_CLUSTER_QUEUES, q.namespace), seen.body)
    await q.patch(OLD_CLUSTER_QUEUES, q.namespace, [{"op": "remove", "path": "/spec/cohort"}], JSON_PATCH)
    await q.get(CLUSTER_QUEUES, q.namespace)


async def test_the_status_of_a_local_queue_is_written_in_v1beta1(q: Session) -> None:
    head = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "l"}}
    await send(q, OLD_LOCAL_QUEUES, {**head, "spec": {"clusterQueue": "q"}})
    usage = [{"name": "f", "resources": [{"name": "cpu", "total": "1"}]}]
    status = {"flavorUsage": usage, "flavors": [{"name": "f", "nodeLabels": {"a": "b"}}], "pendingWorkloads": 1}
    await q.patch(OLD_LOCAL_QUEUES, "l", {"status": status}, MERGE_PATCH, "status")
    await q.get(LOCAL_QUEUES, "l")
    await q.patch(LOCAL_QUEUES, "l", {"status": {"pendingWorkloads": 2}}, MERGE_PATCH, "status")
    await q.get(OLD_LOCAL_QUEUES, "l")


async def test_a_workload_is_admitted_in_one_version_and_read_in_the_other(q: Session) -> None:
    source = {"priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}
    await send(q, OLD_WORKLOADS, workload({"priorityClassName": "high", "priority": 1, **source}))
    slices = [
        {"domainCount": 2, "valuesPerLevel": [{"prefix": "n", "roots": ["1", "2"]}], "universalPodCount": 1},
        {"domainCount": 1, "valuesPerLevel": [{"universalValue": "m"}], "podCounts": [3]},
    ]
    topology = {"levels": ["kubernetes.io/hostname"], "slices": slices}
    assignment = {"name": "main", "flavors": {"cpu": "f"}, "count": 2, "topologyAssignment": topology}
    admission = {"clusterQueue": "q", "podSetAssignments": [assignment]}
    status = {"admission": admission, "accumulatedPastExecutionTimeSeconds": 7}
    await q.patch(WORKLOADS, "w", {"status": status}, MERGE_PATCH, "status")
    seen = await q.get(OLD_WORKLOADS, "w")
    await q.ask("PUT", q.path(OLD_WORKLOADS, "w", "status"), seen.body)
    await q.get(WORKLOADS, "w")
    await q.list(WORKLOADS, fieldSelector="status.admission.clusterQueue=q")
    await q.list(OLD_WORKLOADS, fieldSelector="status.admission.clusterQueue=q")
    await q.list(OLD_WORKLOADS, accept=TABLE)


async def test_a_workload_without_spec_is_valid_in_both_versions(q: Session) -> None:
    body = workload({})
    del body["spec"]
    await send(q, OLD_WORKLOADS, body)
    await q.patch(WORKLOADS, "w", {"status": {"clusterName": "c"}}, MERGE_PATCH, "status")


async def test_admission_rules_of_v1beta2_see_objects_of_v1beta1(q: Session, hooks: Webhooks) -> None:
    """The changes that they make are converted back."""
    async with ruled(q, hooks):
        await send(q, OLD_CLUSTER_QUEUES, cluster_queue(q, REFUSED))
        valid = {"cohort": "c", "admissionChecks": ["a"], "flavorFungibility": {"whenCanBorrow": "Borrow"}}
        await send(q, OLD_CLUSTER_QUEUES, cluster_queue(q, valid))
        await q.patch(OLD_CLUSTER_QUEUES, q.namespace, {"spec": REFUSED}, MERGE_PATCH)
        await q.patch(OLD_CLUSTER_QUEUES, q.namespace, {"metadata": {"finalizers": None}}, MERGE_PATCH)
        await send(q, OLD_CLUSTER_QUEUES, cluster_queue(q, {"admissionChecks": "a"}), dryRun="All")


# --- validation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        {"resourceGroups": GROUPS},
        {"admissionChecks": ["a"], "admissionChecksStrategy": {"admissionChecks": [{"name": "b"}]}},
        {"cohortName": "c"},
        {"flavorFungibility": {"whenCanBorrow": "Preempt"}},
        {"admissionChecks": "a"},
    ],
    ids=["limit", "checks", "unknown", "policy", "types"],
)
async def test_v1beta1_has_rules_of_its_own(q: Session, spec: Json) -> None:
    await send(q, OLD_CLUSTER_QUEUES, cluster_queue(q, spec), dryRun="All", fieldValidation="Strict")


async def test_the_priority_class_is_immutable_while_quota_is_reserved(q: Session) -> None:
    source = {"priorityClassSource": "scheduling.k8s.io/priorityclass"}
    await send(q, OLD_WORKLOADS, workload({"priorityClassName": "high", "priority": 1, **source}))
    head = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    condition = {**head, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await q.patch(OLD_WORKLOADS, "w", {"status": {"conditions": [condition]}}, MERGE_PATCH, "status")
    for change in ({"priorityClassName": "low"}, {"priorityClassName": None}, {"priorityClassSource": ""}):
        await q.patch(OLD_WORKLOADS, "w", {"spec": change}, MERGE_PATCH)
    await q.patch(OLD_WORKLOADS, "w", {"spec": {"priority": 2}}, MERGE_PATCH)


@pytest.mark.parametrize(
    "webhook",
    [
        None,
        {"clientConfig": {}, "conversionReviewVersions": ["v1"]},
        {"clientConfig": {"url": "http://a/b?c#d"}, "conversionReviewVersions": ["v1"]},
        {"clientConfig": {"service": {"name": "", "namespace": "", "path": "x", "port": 0}}},
        {"clientConfig": {"service": {"name": "a", "namespace": "b"}}, "conversionReviewVersions": ["v2"]},
        {"clientConfig": {"service": {"name": "a", "namespace": "b"}}, "conversionReviewVersions": ["v1"]},
    ],
    ids=["none", "neither", "url", "service", "versions", "valid"],
)
async def test_a_conversion_webhook_is_validated(q: Session, webhook: Json) -> None:
    conversion = {"strategy": "Webhook", **({} if webhook is None else {"webhook": webhook})}
    body = (await q.get(CRDS, "clusterqueues.kueue.x-k8s.io", silent=True)).body
    body["spec"]["conversion"] = conversion
    answer = await q.ask("PUT", q.path(CRDS, "clusterqueues.kueue.x-k8s.io"), body, dryRun="All", silent=True)
    shown = answer.body if answer.status != 200 else answer.body["spec"]["conversion"]
    q.check_step({"status": answer.status, "body": q.normal.tree(shown)})


# --- server-side apply -----------------------------------------------------------------------------------------------


@pytest.fixture
def m(q: Session) -> Session:
    q.show_managed_fields()
    return q


async def test_a_manager_applies_in_one_version_and_then_in_the_other(m: Session) -> None:
    """What it no longer applies is removed, although the field had another name."""
    await apply(m, "one", cluster_queue(m, {"cohort": "c", "stopPolicy": "Hold"}))
    await apply(m, "one", cluster_queue(m, {"cohortName": "d"}, "v1beta2"))
    await apply(m, "one", cluster_queue(m, {"stopPolicy": "Hold"}))
    await m.get(CLUSTER_QUEUES, m.namespace)


async def test_fields_that_another_version_names_differently_conflict(m: Session) -> None:
    await apply(m, "one", cluster_queue(m, {"cohort": "c"}))
    await apply(m, "two", cluster_queue(m, {"cohortName": "d"}, "v1beta2"))
    await apply(m, "two", cluster_queue(m, {"cohortName": "c"}, "v1beta2"))
    await apply(m, "two", cluster_queue(m, {"cohortName": "d"}, "v1beta2"), force=True)
    await apply(m, "one", cluster_queue(m, {}))
    await m.get(OLD_CLUSTER_QUEUES, m.namespace)


async def test_an_update_takes_fields_from_managers_in_the_other_version(m: Session) -> None:
    await apply(m, "one", cluster_queue(m, {"cohort": "c", "admissionChecks": ["a"]}))
    await m.patch(CLUSTER_QUEUES, m.namespace, {"spec": {"cohortName": "d"}}, MERGE_PATCH, fieldManager="two")
    await m.patch(CLUSTER_QUEUES, m.namespace, {"spec": {"stopPolicy": "Hold"}}, MERGE_PATCH, fieldManager="two")
    await m.patch(OLD_CLUSTER_QUEUES, m.namespace, {"spec": {"cohort": "e"}}, MERGE_PATCH, fieldManager="two")
    await m.get(CLUSTER_QUEUES, m.namespace)


# --- kubectl ---------------------------------------------------------------------------------------------------------


@pytest.mark.kubectl
async def test_kubectl_works_with_a_manifest_of_v1beta1(q: Session, tmp_path: Path) -> None:
    """Apply, read it in both versions, and apply the same objects written for v1beta2."""
    binary = provide.find("kubectl") or "kubectl"
    run = Kubectl(binary, q.server, q.namespace, tmp_path / "home")
    old = manifest(
        cluster_queue(q, {"cohort": "team-ab", "namespaceSelector": {}, "resourceGroups": GROUPS}),
        workload({"priorityClassName": "low", "priority": 1, "priorityClassSource": "scheduling.k8s.io/priorityclass"}),
    )
    ref = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "low"}
    new = manifest(
        cluster_queue(q, {"cohortName": "team-ab", "namespaceSelector": {}, "resourceGroups": GROUPS}, "v1beta2"),
        workload({"priorityClassRef": ref, "priority": 1}, "v1beta2"),
    )
    warning = "Warning: This version is deprecated. Use v1beta2 instead."
    queue, work = "clusterqueue.kueue.x-k8s.io/NAMESPACE", "workload.kueue.x-k8s.io/w"

    applied = await run(("apply", "-f", "-"), stdin=old)
    assert (applied.code, applied.out) == (0, [f"{queue} created", f"{work} created"]), applied.err
    assert set(applied.err) == {warning}
    again = await run(("apply", "-f", "-"), stdin=old)
    assert again.out == [f"{queue} unchanged", f"{work} unchanged"]
    for kind in ("clusterqueues.v1beta1.kueue.x-k8s.io", "clusterqueues"):
        shown = await run(("get", kind, "{ns}", "-o", "wide"))
        assert [line.split()[:3] for line in shown.out[1:]] == [["NAMESPACE", "team-ab", "BestEffortFIFO"]]
    shown = await run(("get", "workloads.v1beta1.kueue.x-k8s.io", "w", "-o", "jsonpath={.spec.priorityClassName}"))
    assert (shown.out, shown.err) == (["low"], [warning])
    shown = await run(("get", "workloads", "w", "-o", "jsonpath={.spec.priorityClassRef.kind}"))
    assert (shown.out, shown.err) == (["PriorityClass"], [])
    assert (await run(("diff", "-f", "-"), stdin=new)).code == 0
    applied = await run(("apply", "-f", "-"), stdin=new)
    assert (applied.out, applied.err) == ([f"{queue} configured", f"{work} configured"], [])
    shown = await run(("get", "clusterqueues", "{ns}", "-o", "jsonpath={.spec.cohortName}"))
    assert shown.out == ["team-ab"]
    explained = await run(("explain", "clusterqueues.spec.cohort", "--api-version=kueue.x-k8s.io/v1beta1"))
    assert explained.code == 0
    assert "FIELD: cohort <string>" in explained.out
    assert (await run(("explain", "clusterqueues.spec.cohort"))).code == 1
    gone = await run(("delete", "-f", "-"), stdin=old)
    assert (gone.code, len(gone.out)) == (0, 2), gone.err
