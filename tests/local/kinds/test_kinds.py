"""Built-in kinds: rows as kubectl prints them, defaults, and what may change."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_manager.local.discovery.paths import discovery
from queue_manager.local.kinds import ages, event_kind, job_rows, pod_kind, pod_rows
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.kinds.node_kind import NODE
from queue_manager.local.kinds.tables import to_table
from queue_manager.local.status_errors import StatusError
from tests.local.kinds.crd import THINGS

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BORN = "2026-01-01T11:00:00Z"


def row_of(status: Any, *, spec: Any = None, **meta: Any) -> list[Any]:
    body = spec or {"containers": [{"name": "a"}, {"name": "b"}]}
    return pod_rows.row(
        {"metadata": {"name": "p", "creationTimestamp": BORN, **meta}, "spec": body, "status": status}, NOW
    )


def running(name: str, **more: Any) -> Any:
    return {"name": name, "ready": True, "state": {"running": {}}, **more}


def ended(name: str, code: int = 0, reason: str = "", **more: Any) -> Any:
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason}}, **more}


def waiting(name: str, reason: str) -> Any:
    return {"name": name, "state": {"waiting": {"reason": reason}}}


INIT = {"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "a"}]}
SIDECAR = {"initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}]}
READY = [{"type": "Ready", "status": "True"}]
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]

# status, spec, deleted -> READY, STATUS
STATES: list[tuple[Any, Any, bool, str, str]] = [
    ({"phase": "Pending"}, None, False, "0/2", "Pending"),
    ({"phase": "Pending", "conditions": GATED}, None, False, "0/2", "SchedulingGated"),
    (
        {"phase": "Pending", "containerStatuses": [waiting("a", "ContainerCreating")]},
        None,
        False,
        "0/2",
        "ContainerCreating",
    ),
    ({"phase": "Running", "containerStatuses": [running("a"), running("b")]}, None, False, "2/2", "Running"),
    (
        {"phase": "Running", "containerStatuses": [running("a"), waiting("b", "CrashLoopBackOff")]},
        None,
        False,
        "1/2",
        "CrashLoopBackOff",
    ),
    ({"phase": "Succeeded", "containerStatuses": [ended("a", 0, "Completed")]}, None, False, "0/2", "Completed"),
    ({"phase": "Failed", "containerStatuses": [ended("a", 1, "Error")]}, None, False, "0/2", "Error"),
    ({"phase": "Failed", "containerStatuses": [ended("a", 3)]}, None, False, "0/2", "ExitCode:3"),
    ({"phase": "Failed", "reason": "Evicted"}, None, False, "0/2", "Evicted"),
    (
        {"phase": "Running", "conditions": READY, "containerStatuses": [ended("a", 0, "Completed"), running("b")]},
        None,
        False,
        "1/2",
        "Running",
    ),
    (
        {"phase": "Running", "containerStatuses": [ended("a", 0, "Completed"), running("b")]},
        None,
        False,
        "1/2",
        "NotReady",
    ),
    ({"phase": "Pending", "initContainerStatuses": [ended("i"), running("j")]}, INIT, False, "0/1", "Init:1/2"),
    ({"phase": "Pending", "initContainerStatuses": [ended("i", 1, "Error")]}, INIT, False, "0/1", "Init:Error"),
    (
        {"phase": "Pending", "initContainerStatuses": [waiting("i", "ErrImagePull")]},
        INIT,
        False,
        "0/1",
        "Init:ErrImagePull",
    ),
    (
        {
            "phase": "Running",
            "initContainerStatuses": [running("s", started=True)],
            "containerStatuses": [running("a")],
        },
        SIDECAR,
        False,
        "2/2",
        "Running",
    ),
    ({"phase": "Running", "containerStatuses": [running("a")]}, None, True, "1/2", "Terminating"),
    ({"phase": "Succeeded", "containerStatuses": [ended("a", 0, "Completed")]}, None, True, "0/2", "Completed"),
    ({"phase": "Running", "reason": "NodeLost"}, None, True, "0/2", "Unknown"),
]


@pytest.mark.parametrize(("status", "spec", "deleted", "ready", "word"), STATES, ids=lambda value: str(value)[:40])
def test_the_status_column_of_pods(status: Any, spec: Any, deleted: bool, ready: str, word: str) -> None:
    meta = {"deletionTimestamp": BORN} if deleted else {}
    assert row_of(status, spec=spec, **meta)[1:3] == [ready, word]


def test_the_restarts_column_names_the_time_of_the_last_restart() -> None:
    last = {"terminated": {"finishedAt": "2026-01-01T11:58:00Z"}}
    row = row_of({"phase": "Running", "containerStatuses": [running("a", restartCount=2, lastState=last)]})
    assert row[3:5] == ["2 (2m ago)", "60m"]


JOB_STATES: list[tuple[list[str], dict[str, Any], str]] = [
    ([], {}, "Running"),
    (["Suspended"], {}, "Suspended"),
    (["Suspended", "FailureTarget"], {}, "Suspended"),
    (["FailureTarget"], {}, "FailureTarget"),
    (["SuccessCriteriaMet"], {}, "SuccessCriteriaMet"),
    (["Suspended"], {"deletionTimestamp": BORN}, "Terminating"),
    (["FailureTarget", "Failed"], {"deletionTimestamp": BORN}, "Failed"),
    (["SuccessCriteriaMet", "Complete"], {}, "Complete"),
]


@pytest.mark.parametrize(("conditions", "meta", "word"), JOB_STATES)
def test_the_status_column_of_jobs(conditions: list[str], meta: Any, word: str) -> None:
    status = {"conditions": [{"type": name, "status": "True"} for name in conditions]}
    assert job_rows.row({"metadata": {"name": "j", **meta}, "spec": {}, "status": status}, NOW)[1] == word


COMPLETIONS = [({"completions": 3}, "1/3"), ({"parallelism": 2}, "1/1 of 2"), ({"parallelism": 1}, "1/1")]


@pytest.mark.parametrize(("spec", "text"), COMPLETIONS)
def test_completions_of_a_job(spec: Any, text: str) -> None:
    status = {"succeeded": 1, "startTime": BORN, "completionTime": "2026-01-01T11:01:30Z"}
    row = job_rows.row({"metadata": {"name": "j"}, "spec": spec, "status": status}, NOW)
    assert row[2:4] == [text, "90s"]


def test_a_selector_is_printed_in_order_of_its_keys() -> None:
    expressions = [{"key": "b", "operator": "In", "values": ["y", "x"]}, {"key": "a", "operator": "DoesNotExist"}]
    assert job_rows.format_selector({"matchLabels": {"c": "d"}, "matchExpressions": expressions}) == "!a,b in (x,y),c=d"
    assert job_rows.format_selector({}) == "<none>"


SECONDS = [
    (0, "0s"),
    (119, "119s"),
    (120, "2m"),
    (330, "5m30s"),
    (5400, "90m"),
    (3 * 3600, "3h"),
    (7 * 3600 + 300, "7h5m"),
    (47 * 3600, "47h"),
    (50 * 3600, "2d2h"),
    (9 * 86400, "9d"),
    (3 * 365 * 86400 + 20 * 86400, "3y20d"),
    (9 * 365 * 86400, "9y"),
    (-0.5, "0s"),
    (-5, "<invalid>"),
]


@pytest.mark.parametrize(("seconds", "text"), SECONDS)
def test_ages_are_printed_as_by_kubectl(seconds: float, text: str) -> None:
    assert ages.format_age(seconds) == text


QOS: list[tuple[Any, str]] = [
    ([{}], "BestEffort"),
    ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
    ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}], "Burstable"),
    ([{"requests": {"cpu": "1"}}], "Burstable"),
    ([{"requests": {"example.com/gpu": "1"}}], "BestEffort"),
    ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
]


@pytest.mark.parametrize(("resources", "quality"), QOS)
def test_the_quality_of_service_follows_from_requests_and_limits(resources: Any, quality: str) -> None:
    assert pod_kind.qos_class({"containers": [{"name": "c", "resources": r} for r in resources]}) == quality


def new_pod() -> Any:
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "a", "image": "i:1"}]}}
    pod_kind.POD.prepare_create(pod)
    return pod


def test_a_new_pod_is_pending_and_complete() -> None:
    pod = new_pod()
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert pod["spec"]["restartPolicy"] == "Always"
    assert pod_kind.POD.validate_create(pod) == []


CHANGES: list[tuple[Any, list[str]]] = [
    ({"containers": [{"image": "i:2"}]}, []),
    ({"activeDeadlineSeconds": 5}, []),
    ({"tolerations": [{"key": "k", "operator": "Exists"}]}, []),
    ({"hostname": "x"}, ["spec"]),
    ({"nodeSelector": {"a": "b"}}, ["spec"]),
    ({"containers": [{"command": ["x"]}]}, ["spec"]),
]


@pytest.mark.parametrize(("change", "fields"), CHANGES, ids=str)
def test_few_fields_of_a_pod_spec_are_mutable(change: Any, fields: list[str]) -> None:
    old = new_pod()
    new = copy.deepcopy(old)
    containers = change.get("containers", [])
    new["spec"] |= {key: value for key, value in change.items() if key != "containers"}
    for container, changed in zip(new["spec"]["containers"], containers, strict=False):
        container |= changed
    pod_kind.POD.prepare_update(new, old)
    assert [error.field for error in pod_kind.POD.validate_update(new, old)] == fields


def test_node_columns_show_roles_and_schedulability() -> None:
    node = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "b"}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}},
    }
    assert NODE.row is not None
    assert NODE.row(node, NOW)[1:3] == ["Ready,SchedulingDisabled", "b,control-plane"]


def test_an_event_is_the_same_in_both_groups() -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Job", "name": "j"},
        "message": "m",
        "source": {"component": "c"},
        "count": 2,
        "firstTimestamp": BORN,
        "lastTimestamp": BORN,
        "reportingComponent": "r",
    }
    new = event_kind.from_core(event)
    assert new["regarding"] == {"kind": "Job", "name": "j"}
    assert (new["note"], new["deprecatedCount"], new["reportingController"]) == ("m", 2, "r")
    assert event_kind.to_core(new) == event
    assert event_kind.EVENT.row is not None
    assert event_kind.NEW_EVENT.row is not None
    assert event_kind.EVENT.row(event, NOW) == event_kind.NEW_EVENT.row(new, NOW)


def test_table_rows_carry_the_requested_part_of_the_object() -> None:
    pod = new_pod()
    assert to_table(pod_kind.POD, [pod], NOW, "None")["rows"][0]["object"] is None
    assert to_table(pod_kind.POD, [pod], NOW, "Metadata")["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert to_table(pod_kind.POD, [pod], NOW, "Object")["rows"][0]["object"] is pod
    with pytest.raises(StatusError, match="Unable to convert to Table as requested"):
        to_table(pod_kind.POD, [pod], NOW, "Everything")


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def test_discovery_is_aggregated_on_request() -> None:
    registry = KindRegistry.builtin()
    found = discovery(registry, "/apis", AGGREGATED)
    assert found is not None
    assert found[0].endswith("as=APIGroupDiscoveryList")
    groups = {item["metadata"]["name"]: item["versions"][0] for item in json.loads(found[1])["items"]}
    jobs = groups["batch"]["resources"][0]
    assert (jobs["resource"], jobs["subresources"][0]["subresource"]) == ("jobs", "status")
    legacy = discovery(registry, "/apis", "application/json")
    assert legacy is not None
    assert json.loads(legacy[1])["kind"] == "APIGroupList"


def test_discovery_follows_the_definitions() -> None:
    registry = KindRegistry.builtin()
    assert discovery(registry, "/apis/demo.example.com/v1", "") is None
    registry.install(THINGS)
    found = discovery(registry, "/apis/demo.example.com/v1", "")
    assert found is not None
    assert [r["name"] for r in json.loads(found[1])["resources"]] == ["things", "things/status"]
    registry.remove(THINGS)
    assert discovery(registry, "/apis/demo.example.com/v1", "") is None


def test_every_openapi_document_refers_only_to_what_it_contains() -> None:
    registry = KindRegistry.builtin()
    registry.install(THINGS)
    index = discovery(registry, "/openapi/v3", "")
    assert index is not None
    paths = json.loads(index[1])["paths"]
    assert {"api/v1", "apis/batch/v1", "apis/demo.example.com/v1"} <= paths.keys()
    for path in paths:
        document = discovery(registry, f"/openapi/v3/{path}", "")
        assert document is not None
        text = document[1].decode()
        schemas = json.loads(text)["components"]["schemas"]
        used = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
        assert used <= schemas.keys()
        assert "x-go-" not in text
