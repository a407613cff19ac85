"""kubectl with the embedded API server over TLS."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.local.kubectl.conftest import Kubectl

pytestmark = pytest.mark.kubectl

CONTAINER = {"name": "main", "image": "python:3", "command": ["python3", "-c", "print(1)"]}


def job(name: str = "hello", **spec: Any) -> str:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    labels = {"team": "a"}
    return json.dumps(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {"template": template, **spec},
        }
    )


def pod(name: str = "p1", **meta: Any) -> str:
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": {"containers": [CONTAINER]}}
    )


CRD = yaml.safe_dump(
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.demo.example.com"},
        "spec": {
            "group": "demo.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "shortNames": ["th"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
                    ],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": "A thing to look at.",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "required": ["color"],
                                    "properties": {
                                        "color": {"type": "string", "description": "What it looks like."},
                                        "size": {"type": "integer", "default": 3, "maximum": 9},
                                    },
                                }
                            },
                        }
                    },
                }
            ],
        },
    }
)
THING = "apiVersion: demo.example.com/v1\nkind: Thing\nmetadata: {name: t1}\nspec: {color: red}\n"


async def test_apply_creates_changes_and_leaves_alone(k: Kubectl) -> None:
    """apply prints created, configured and unchanged."""
    assert (await k("apply", "-f", "-", stdin=job())).out == "job.batch/hello created\n"
    assert (await k("apply", "-f", "-", stdin=job(parallelism=2))).out == "job.batch/hello configured\n"
    assert (await k("apply", "-f", "-", stdin=job(parallelism=2))).out == "job.batch/hello unchanged\n"


async def test_apply_merges_lists_by_key(k: Kubectl) -> None:
    """What another client added to a list is kept by an apply that changes another item."""
    await k("apply", "-f", "-", stdin=pod(finalizers=["demo.example.com/a"]))
    await k("patch", "pod", "p1", "-p", '{"metadata":{"finalizers":["demo.example.com/b"]}}')
    await k("apply", "-f", "-", stdin=pod(finalizers=["demo.example.com/a"], labels={"x": "y"}))
    meta = (await k("get", "pod", "p1", "-o", "json")).tree["metadata"]
    assert sorted(meta["finalizers"]) == ["demo.example.com/a", "demo.example.com/b"]


async def test_create_of_an_existing_object_is_refused(k: Kubectl) -> None:
    assert (await k("create", "-f", "-", stdin=job())).out == "job.batch/hello created\n"
    refused = await k.try_("create", "-f", "-", stdin=job())
    assert refused.code == 1
    assert 'jobs.batch "hello" already exists' in refused.err


async def test_validation_errors_reach_the_user_in_full(k: Kubectl) -> None:
    refused = await k.try_("apply", "-f", "-", stdin=job(parallelism="x"))
    assert "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32" in refused.err
    refused = await k.try_("apply", "-f", "-", stdin=job(foo=1))
    assert 'strict decoding error: unknown field "spec.foo"' in refused.err


async def test_get_prints_the_columns_of_jobs(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=job(completions=3))
    table = await k("get", "jobs")
    assert table.out.splitlines()[0].split() == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert table.rows[0][:3] == ["hello", "Running", "0/3"]
    wide = await k("get", "jobs", "-o", "wide")
    assert wide.out.splitlines()[0].split()[-3:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert wide.rows[0][-3:-1] == ["main", "python:3"]


async def test_get_prints_the_columns_of_pods(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=pod())
    wide = await k("get", "pods", "-o", "wide")
    assert wide.rows[0][:4] == ["p1", "0/1", "Pending", "0"]
    assert wide.rows[0][5:] == ["<none>"] * 4


async def test_get_as_yaml_json_and_jsonpath(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=job())
    assert yaml.safe_load((await k("get", "job", "hello", "-o", "yaml")).out)["spec"]["backoffLimit"] == 6
    assert (await k("get", "job", "hello", "-o", "json")).tree["kind"] == "Job"
    assert (await k("get", "job", "hello", "-o", "jsonpath={.spec.completions}")).out == "1"


async def test_get_selects_by_labels_fields_and_namespaces(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=pod("a", labels={"team": "x"}) + "\n" + pod("b", labels={"team": "y"}))
    assert (await k("get", "pods", "-l", "team in (x,z)", "-o", "name")).out == "pod/a\n"
    assert (await k("get", "pods", "-l", "team!=x", "-o", "name")).out == "pod/b\n"
    assert (
        await k("get", "pods", "--field-selector", "status.phase=Pending,metadata.name=b", "-o", "name")
    ).out == "pod/b\n"
    everywhere = await k("get", "pods", "-A")
    assert [row[:2] for row in everywhere.rows] == [["default", "a"], ["default", "b"]]
    refused = await k.try_("get", "pods", "--field-selector", "spec.foo=1")
    assert "field label not supported: spec.foo" in refused.err


async def test_get_watches(k: Kubectl) -> None:
    """A row for what is there, and one for each change."""
    await k("apply", "-f", "-", stdin=job())
    watcher = await k.start(
        "get", "jobs", "-w", "-o", "custom-columns=N:.metadata.name,P:.spec.parallelism", "--no-headers"
    )
    assert watcher.stdout is not None
    try:
        assert (await asyncio.wait_for(watcher.stdout.readline(), 30)).split() == [b"hello", b"1"]
        await k("patch", "job", "hello", "-p", '{"spec":{"parallelism":5}}')
        assert (await asyncio.wait_for(watcher.stdout.readline(), 30)).split() == [b"hello", b"5"]
    finally:
        watcher.kill()
        await watcher.wait()


async def test_watch_prints_table_rows(k: Kubectl) -> None:
    watcher = await k.start("get", "jobs", "-w")
    assert watcher.stdout is not None
    try:
        await k("apply", "-f", "-", stdin=job())
        assert (await asyncio.wait_for(watcher.stdout.readline(), 30)).split()[:2] == [b"NAME", b"STATUS"]
        assert (await asyncio.wait_for(watcher.stdout.readline(), 30)).split()[:3] == [b"hello", b"Running", b"0/1"]
    finally:
        watcher.kill()
        await watcher.wait()


async def test_describe_shows_jobs_pods_and_nodes(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=job() + "\n" + pod())
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}}
    await k("apply", "-f", "-", stdin=json.dumps(node))
    assert "Completion Mode:  NonIndexed" in (await k("describe", "job", "hello")).out
    assert "QoS Class:        BestEffort" in (await k("describe", "pod", "p1")).out
    described = (await k("describe", "node", "n1")).out
    assert "cpu:  4" in described
    assert "Non-terminated Pods" in described


@pytest.mark.parametrize(
    ("type", "patch"),
    [
        ("strategic", '{"spec":{"suspend":true}}'),
        ("merge", '{"spec":{"suspend":true}}'),
        ("json", '[{"op":"replace","path":"/spec/suspend","value":true}]'),
    ],
)
async def test_patch_with_each_patch_type(k: Kubectl, type: str, patch: str) -> None:
    await k("apply", "-f", "-", stdin=job())
    assert (await k("patch", "job", "hello", "--type", type, "-p", patch)).out == "job.batch/hello patched\n"
    assert (await k("get", "job", "hello", "-o", "jsonpath={.spec.suspend}")).out == "true"


async def test_edit_sends_what_the_editor_changed(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=job())
    edited = await k("edit", "job", "hello", EDITOR="sed -i s/parallelism:.1/parallelism:\\ 4/")
    assert edited.out == "job.batch/hello edited\n"
    assert (await k("get", "job", "hello", "-o", "jsonpath={.spec.parallelism}")).out == "4"


async def test_label_and_annotate(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=job())
    await k("label", "job", "hello", "team=b", "x=y", "--overwrite")
    await k("annotate", "job", "hello", "note=hi")
    await k("label", "job", "hello", "x-")
    meta = (await k("get", "job", "hello", "-o", "json")).tree["metadata"]
    assert meta["labels"] == {"team": "b"}
    assert meta["annotations"]["note"] == "hi"


async def test_events_and_get_events(k: Kubectl) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e1"},
        "involvedObject": {"kind": "Job", "name": "hello", "namespace": "default"},
        "reason": "Suspended",
        "message": "Job suspended",
        "type": "Normal",
        "source": {"component": "job-controller"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 2,
    }
    await k("create", "-f", "-", stdin=json.dumps(event))
    for command in (("events",), ("get", "events"), ("get", "events.v1.events.k8s.io")):
        printed = await k(*command)
        words = [word.lower() for word in printed.rows[0][-4:]]
        assert words == ["suspended", "job/hello", "job", "suspended"], command
    described = await k("describe", "event", "e1")
    assert "Job suspended" in described.out


async def test_api_resources_names_what_is_served(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=CRD)
    listed = {row[0]: row[1:] for row in (await k("api-resources")).rows}
    assert listed["jobs"] == ["batch/v1", "true", "Job"]
    assert listed["pods"] == ["po", "v1", "true", "Pod"]
    assert listed["things"] == ["th", "demo.example.com/v1", "true", "Thing"]
    assert "batch/v1" in (await k("api-versions")).out.split()
    assert "Server Version: v1.36" in (await k("version")).out


async def test_explain_knows_jobs_and_custom_kinds(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=CRD)
    assert "parallelism\t<integer>" in (await k("explain", "job.spec")).out
    assert "containers\t<[]Container> -required-" in (await k("explain", "job.spec.template.spec")).out
    thing = (await k("explain", "thing")).out
    assert "A thing to look at." in thing
    assert "What it looks like." in (await k("explain", "thing.spec.color")).out


async def test_custom_kinds_are_validated_defaulted_and_printed(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=CRD)
    await k("wait", "--for=condition=Established", "crd/things.demo.example.com", "--timeout=10s")
    await k("apply", "-f", "-", stdin=THING)
    assert (await k("get", "th", "-o", "wide")).rows == [["t1", "3", "red"]]
    refused = await k.try_("apply", "-f", "-", stdin=THING.replace("color: red", "color: red, size: 12"))
    assert "spec.size: Invalid value: 12: spec.size in body should be less than or equal to 9" in refused.err
    refused = await k.try_("create", "-f", "-", stdin=THING.replace("color: red", "colour: red"))
    assert 'unknown field "spec.colour"' in refused.err
    await k("edit", "thing", "t1", EDITOR="sed -i s/color:.red/color:\\ blue/")
    assert (await k("get", "thing", "t1", "-o", "jsonpath={.spec.color}")).out == "blue"


async def test_wait_for_a_condition(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=job())
    waiting = asyncio.ensure_future(k("wait", "--for=condition=Suspended", "job/hello", "--timeout=30s"))
    status = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    await k("patch", "job", "hello", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    assert (await waiting).out == "job.batch/hello condition met\n"


@pytest.mark.parametrize(("cascade", "survives"), [("background", False), ("foreground", False), ("orphan", True)])
async def test_delete_cascades_to_pods_as_asked(k: Kubectl, cascade: str, survives: bool) -> None:
    await k("apply", "-f", "-", stdin=job())
    uid = (await k("get", "job", "hello", "-o", "jsonpath={.metadata.uid}")).out
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "hello", "uid": uid, "controller": True}
    owner["blockOwnerDeletion"] = True
    await k("create", "-f", "-", stdin=pod(ownerReferences=[owner]))
    assert (await k("delete", "job", "hello", f"--cascade={cascade}")).out == 'job.batch "hello" deleted\n'
    if survives:
        assert "ownerReferences" not in (await k("get", "pod", "p1", "-o", "json")).tree["metadata"]
    else:
        await k("wait", "--for=delete", "pod/p1", "--timeout=30s")


async def test_a_namespace_takes_its_objects_along(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin="apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n")
    await k("apply", "-n", "team-a", "-f", "-", stdin=job())
    await k("delete", "namespace", "team-a", "--timeout=30s")
    assert "NotFound" in (await k.try_("get", "namespace", "team-a")).err
    assert (await k("get", "jobs", "-A")).out == ""


async def test_create_with_generators_sends_protobuf(k: Kubectl) -> None:
    assert (await k("create", "namespace", "team-a")).out == "namespace/team-a created\n"
    assert (await k("create", "configmap", "c", "--from-literal=a=1")).out == "configmap/c created\n"
    assert (await k("create", "secret", "generic", "s", "--from-literal=a=1")).out == "secret/s created\n"
    assert (await k("create", "job", "j", "--image=x", "--", "sh", "-c", "true")).out == "job.batch/j created\n"
    assert (await k("get", "configmap", "c", "-o", "json")).tree["data"] == {"a": "1"}
    assert (await k("get", "secret", "s", "-o", "json")).tree["data"] == {"a": "MQ=="}
    (container,) = (await k("get", "job", "j", "-o", "json")).tree["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == ("x", ["sh", "-c", "true"])


async def test_create_of_kinds_without_protobuf_support_names_an_alternative(k: Kubectl) -> None:
    line = ("create", "priorityclass", "high", "--value=5")
    refused = await k.try_(*line)
    if refused.code == 0:
        pytest.skip("kubectl before 1.32 sends JSON")
    assert "--dry-run=client -o yaml | kubectl apply -f -" in refused.err
    manifest = (await k(*line, "--dry-run=client", "-o", "yaml")).out
    assert (await k("apply", "-f", "-", stdin=manifest)).out == "priorityclass.scheduling.k8s.io/high created\n"


async def test_dry_run_on_the_server_stores_nothing(k: Kubectl) -> None:
    assert (
        await k("apply", "-f", "-", "--dry-run=server", stdin=job())
    ).out == "job.batch/hello created (server dry run)\n"
    assert (await k("get", "jobs")).out == ""


async def test_replace_puts_the_whole_object(k: Kubectl) -> None:
    await k("create", "-f", "-", stdin=job(parallelism=2))
    tree = (await k("get", "job", "hello", "-o", "json")).tree
    tree["spec"]["parallelism"] = 7
    assert (await k("replace", "-f", "-", stdin=json.dumps(tree))).out == "job.batch/hello replaced\n"
    refused = await k.try_("replace", "-f", "-", stdin=json.dumps(tree))
    assert "the object has been modified" in refused.err


async def test_get_all_lists_jobs_and_pods(k: Kubectl) -> None:
    await k("apply", "-f", "-", stdin=job() + "\n" + pod())
    assert set((await k("get", "all", "-o", "name")).out.split()) == {"pod/p1", "job.batch/hello"}


async def test_the_token_is_neither_logged_nor_part_of_a_file_name(k: Kubectl, tmp_path: Path) -> None:
    assert "https://127.0.0.1:" in (await k("get", "nodes", "-v=8")).err
    said = await k("get", "jobs", "-v=8")
    cached = [str(path) for path in tmp_path.rglob("*")]
    assert any("discovery" in path for path in cached)
    assert not [text for text in (said.err, *cached) if "secret" in text]


async def test_proxy_passes_requests_on(k: Kubectl) -> None:
    process = await k.start("proxy", "--port=0")
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
        async with aiohttp.ClientSession() as session, session.get(f"http://{line.split()[-1]}/api/v1/nodes") as answer:
            assert (answer.status, (await answer.json())["kind"]) == (200, "NodeList")
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (("exec", "p1", "--", "ls"), "exec"),
        (("attach", "p1"), "attach"),
        (("port-forward", "pod/p1", "0:80"), "portforward"),
        (("cp", "p1:/etc/hosts", "-"), "exec"),
    ],
)
async def test_exec_attach_and_port_forward_are_refused_with_the_reason(
    k: Kubectl, line: tuple[str, ...], named: str
) -> None:
    await k("apply", "-f", "-", stdin=pod())
    status = json.dumps({"status": {"phase": "Running"}})
    await k("patch", "pod", "p1", "--subresource=status", "--type=merge", "-p", status)
    refused = await k.try_(*line)
    assert refused.code == 1
    assert f"{named} is not served here: containers are ordinary processes of this machine" in refused.err
