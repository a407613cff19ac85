"""kubectl sessions: the same commands print the same on both servers.

The commands run with the kubectl on PATH, other installed versions, and that of the control plane. Ages, generated
names, uids, times and addresses are normalized; all else must be equal, exit codes included.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from queue_manager.engine.rest_client import RestClient
from tests.contract import servers
from tests.contract.bodies import definition, job, pod, thing
from tests.contract.conftest import WORK
from tests.contract.normal import MICRO_TIME, TEMPLATE, TIME, UUID
from tests.contract.servers import Server
from tests.control_plane import provide
from tests.control_plane.cleanup import remove_all
from tests.control_plane.server import ControlPlane
from tests.waiting import until

COLLECTED = True
pytestmark = [pytest.mark.control_plane, pytest.mark.kubectl, pytest.mark.timeout(300)]
GROUP = "session.example.com"
VERSIONS = 2  # how many of the versions installed beside the kubectl on PATH, newest first

AGE = re.compile(r"(?<![\w.-])(<invalid>|(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+s|<unknown>)(?![\w-])")
VERSION = re.compile(r'("?resourceVersion"?: "?|Resource Version:  )\d+')
COLUMN_GAP = re.compile(r" {2,}")
DATE = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
ADDRESS = re.compile(r"https?://127\.0\.0\.1:\d+")
DIFF_NAME = re.compile(r"/tmp/(LIVE|MERGED)-\d+/|^(diff -u -N .*|(?:---|\+\+\+) .*)$", re.MULTILINE)


def manifest(*objects: Any) -> str:
    """One object, or a list of several."""
    tree = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
    return json.dumps(tree)


def normal(text: str, namespace: str) -> list[str]:
    text = text.replace(namespace, "NAMESPACE")
    for pattern, token in (
        (UUID, "UID"),
        (MICRO_TIME, "MICROTIME"),
        (TIME, "TIME"),
        (DATE, "DATE"),
        (ADDRESS, "SERVER"),
        (DIFF_NAME, "DIFF"),
        (AGE, "AGE"),
        (COLUMN_GAP, "  "),
        (TEMPLATE, "TEMPLATE: field is immutable"),
    ):
        text = pattern.sub(token, text)
    return VERSION.sub(r"\1N", text).splitlines()


@dataclass
class CommandResult:
    code: int
    out: list[str]
    err: list[str]


class Kubectl:
    """A kubectl binary with one server, in a namespace."""

    def __init__(self, binary: str, server: Server, namespace: str, home: Path) -> None:
        self._binary, self._namespace = binary, namespace
        home.mkdir(exist_ok=True)
        self._env = os.environ | {"KUBECONFIG": str(server.kubeconfig), "HOME": str(home), "NO_COLOR": "1", "TZ": "UTC"}

    async def __call__(self, line: tuple[str, ...], stdin: str = "", **environment: str) -> CommandResult:
        process = await asyncio.create_subprocess_exec(
            self._binary,
            *("--namespace", self._namespace),
            *(word.replace("{ns}", self._namespace) for word in line),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env | environment,
        )
        out, err = await asyncio.wait_for(process.communicate(stdin.replace("{ns}", self._namespace).encode()), 60)
        texts = (normal(text.decode(), self._namespace) for text in (out, err))
        return CommandResult(process.returncode or 0, *texts)


class KubectlPair:
    """The same kubectl with both servers."""

    def __init__(self, real: Kubectl, embedded: Kubectl) -> None:
        self._real, self._embedded = real, embedded
        self.commands = 0

    async def __call__(
        self, *line: str, stdin: str = "", code: int = 0, only: Any = None, **environment: str
    ) -> CommandResult:
        """Run a command on both and compare. `only` selects the lines that are compared, where not all come from the
        API.
        """
        real, embedded = await asyncio.gather(
            self._real(line, stdin, **environment), self._embedded(line, stdin, **environment)
        )
        self.commands += 1
        assert real.code == code, (line, real)
        for result in (real, embedded) if only else ():
            result.out = [text for text in result.out if only(text)]
        assert embedded == real, line
        return real

    async def until_served(self, plural: str) -> None:
        """Wait until both servers serve a kind and name it: a real one does a moment after it is established."""

        async def is_served(kubectl: Kubectl) -> bool:
            return (await kubectl(("get", plural))).code == 0

        for one in (self._real, self._embedded):
            await until(lambda one=one: is_served(one), f"{plural} are served")


def binaries() -> list[str]:
    """The kubectl on PATH, the versions that are installed beside it, and that of the control plane."""
    first = shutil.which("kubectl")
    beside = sorted(map(str, Path(first).resolve().parent.glob("kubectl.1.*"))) if first else []
    found = [first, *beside[-VERSIONS:], str(provide.find("kubectl") or "")]
    return list(dict.fromkeys(binary for binary in found if binary)) or ["kubectl"]


@pytest.fixture(params=binaries(), ids=lambda binary: binary.strip("/").replace("/", "-"))
async def k(
    request: pytest.FixtureRequest, control_plane: ControlPlane, controllers: None, tmp_path: Path
) -> AsyncIterator[KubectlPair]:
    namespace = f"session-{secrets.token_hex(4)}"
    async with contextlib.AsyncExitStack() as stack:
        real = await stack.enter_async_context(servers.real(control_plane))
        embedded = await stack.enter_async_context(servers.embedded(tmp_path, controllers=True))
        sides = [Kubectl(request.param, server, namespace, tmp_path / server.name) for server in (real, embedded)]
        session = KubectlPair(*sides)
        await session("create", "-f", "-", stdin=manifest(namespace_of(namespace)))
        try:
            yield session
        finally:
            for resource in WORK:
                await remove_all(RestClient(real.transport), resource, namespace)


def namespace_of(name: str) -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def test_apply_diff_edit_patch_and_label(k: KubectlPair) -> None:
    one = job("hello", None, labels={"team": "a"})
    two = job("hello", {"parallelism": 2}, labels={"team": "a"})
    await k("apply", "-f", "-", stdin=manifest(one))
    await k("diff", "-f", "-", stdin=manifest(one))
    await k("diff", "-f", "-", stdin=manifest(two), code=1)
    await k("apply", "-f", "-", stdin=manifest(two))
    await k("apply", "-f", "-", stdin=manifest(two))
    await k("apply", "-f", "-", "--dry-run=server", stdin=manifest(job("other")))
    await k("create", "-f", "-", stdin=manifest(one), code=1)
    await k("create", "-f", "-", stdin=manifest(pod("p")))
    await k("edit", "job", "hello", EDITOR="sed -i s/parallelism:.2/parallelism:\\ 4/")
    await k("edit", "job", "hello", EDITOR="true")
    await k("patch", "job", "hello", "-p", '{"spec":{"suspend":true}}')
    await k("patch", "job", "hello", "--type=merge", "-p", '{"spec":{"parallelism":3}}')
    await k("patch", "job", "hello", "--type=json", "-p", '[{"op":"remove","path":"/spec/suspend"}]')
    await k("patch", "job", "hello", "-p", '{"spec":{"completions":9}}', code=1)
    await k("label", "job", "hello", "team=b", "--overwrite")
    await k("label", "job", "hello", "team=c", code=1)
    await k("label", "job", "hello", "team-")
    await k("annotate", "job", "hello", "note=hi")
    await k("get", "job", "hello", "-o", "jsonpath={.metadata.annotations.note} {.spec.parallelism}")
    await k("replace", "-f", "-", stdin=manifest(job("hello")), code=1)
    await k("apply", "-f", "-", stdin=manifest(job("wrong", {"parallelism": -1})), code=1)
    await k("apply", "-f", "-", stdin=manifest(job("wrong", {"paralelism": 1})), code=1)


async def test_server_side_apply_with_conflicts(k: KubectlPair) -> None:
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v", "l": "w"}}
    two, less = {**one, "data": {"k": "other"}}, {**one, "data": {"k": "v"}}
    side = ("apply", "--server-side", "-f", "-")
    await k(*side, stdin=manifest(one))
    await k(*side, stdin=manifest(one))
    await k("diff", "--server-side", "-f", "-", stdin=manifest(less), code=1)
    await k(*side, "--field-manager=two", stdin=manifest(two), code=1)
    await k(*side, "--field-manager=two", "--force-conflicts", stdin=manifest(two))
    await k(*side, stdin=manifest(less), code=1)
    await k(*side, "--force-conflicts", stdin=manifest(less))
    await k("get", "configmap", "c", "-o", "jsonpath={.data}")
    await k("get", "configmap", "c", "-o", "yaml", "--show-managed-fields")
    await k(*side, "--dry-run=server", stdin=manifest(job("hello")))
    await k(*side, stdin=manifest(job("hello")))
    await k(*side, stdin=manifest(job("hello", {"parallelism": -1})), code=1)


async def test_logs_need_the_name_of_one_of_several_containers(k: KubectlPair) -> None:
    two = {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}
    await k("create", "-f", "-", stdin=manifest(pod("p"), pod("q", two)))
    await k("logs", "p")
    await k("logs", "p", "-c", "none", code=1)
    await k("logs", "q", "-c", "b", "--tail=3")
    await k("logs", "q", "--all-containers")
    await k("logs", "none", code=1)
    await k("logs", "p", "--tail=-5", code=1)
    await k("logs", "p", "--limit-bytes=-1", code=1)


async def test_get_in_every_output_format(k: KubectlPair) -> None:
    await k("create", "-f", "-", stdin=manifest(job("hello", {"completions": 3}), pod("p", None, labels={"a": "b"})))
    for output in ("", "wide", "name", "json", "yaml", "jsonpath={.metadata.name}", "go-template={{.kind}}"):
        await k("get", "job", "hello", *(("-o", output) if output else ()))
    await k("get", "jobs", "-o", "custom-columns=N:.metadata.name,C:.spec.completions")
    await k("get", "pods", "-o", "wide", "--show-labels")
    await k("get", "pods", "-l", "a=b", "-o", "name")
    await k("get", "pods", "--field-selector", "status.phase=Running")
    await k("get", "pods", "--field-selector", "spec.none=1", code=1)
    await k("get", "job/hello", "pod/p")
    await k("get", "job,pod")
    await k("get", "job", "none", code=1)
    await k("get", "nonsense", code=1)
    await k("get", "pods", "--sort-by=.metadata.name", "--no-headers")
    await k("describe", "job", "hello")
    await k("describe", "pod", "p")
    await k(
        "describe", "namespace", "{ns}", only=lambda line: line and "quota" not in line and "LimitRange" not in line
    )


async def test_delete_with_each_propagation_policy(k: KubectlPair) -> None:
    for cascade in ("background", "foreground", "orphan"):
        await k("create", "-f", "-", stdin=manifest(job(cascade)))
        await k("delete", "job", cascade, f"--cascade={cascade}")
        await k("wait", "--for=delete", f"job/{cascade}", "--timeout=30s")
    await k("delete", "job", "none", code=1)
    await k("delete", "job", "none", "--ignore-not-found")
    await k("create", "-f", "-", stdin=manifest(pod("p"), pod("q")))
    await k("delete", "pod", "p", "--grace-period=0", "--force")
    await k("delete", "pods", "--all")
    await k("create", "-f", "-", stdin=manifest(job("dry")))
    await k("delete", "job", "dry", "--dry-run=server")
    await k("get", "job", "dry", "-o", "name")


async def test_create_with_generators(k: KubectlPair) -> None:
    """kubectl 1.32 and later send these objects in protobuf."""
    await k("create", "configmap", "c", "--from-literal=a=1", "--save-config")
    await k("create", "secret", "generic", "s", "--from-literal=a=1", "--type=x/y")
    await k("create", "job", "j", "--image=x", "--", "sh", "-c", "true")
    await k("create", "job", "k", "--image=x")
    for line in (("configmap", "c"), ("secret", "s"), ("job", "j"), ("job", "k")):
        await k("get", *line, "-o", "yaml", "--show-managed-fields")
    await k("create", "configmap", "c", code=1)
    await k("create", "job", "A_", "--image=x", code=1)
    await k("create", "namespace", "{ns}", code=1)


async def test_wait_for_conditions(k: KubectlPair) -> None:
    await k("create", "-f", "-", stdin=manifest(job("hello", {"suspend": True})))
    await k("wait", "--for=condition=Complete", "job/hello", "--timeout=1s", code=1)
    status = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    await k("patch", "job", "hello", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    await k("wait", "--for=condition=Suspended", "job/hello", "--timeout=20s")
    await k("wait", "--for=jsonpath={.spec.suspend}=true", "job/hello", "--timeout=20s")
    await k("get", "jobs")


async def test_events_of_an_object(k: KubectlPair) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Job", "name": "hello", "apiVersion": "batch/v1"},
        "reason": "Suspended",
        "message": "Job suspended",
        "type": "Normal",
        "source": {"component": "job-controller"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 2,
    }
    await k("create", "-f", "-", stdin=manifest(event), code=1)  # the involved object has no namespace
    event["involvedObject"] = {"kind": "Job", "name": "hello", "apiVersion": "batch/v1", "namespace": "{ns}"}
    await k("create", "-f", "-", stdin=manifest(event))
    await k("get", "events")
    await k("get", "events", "-o", "wide")
    await k("get", "events.v1.events.k8s.io", "-o", "name")
    await k("events")


async def test_explain(k: KubectlPair) -> None:
    """The structure is equal; the descriptions of built-in kinds are not copied from Kubernetes."""
    typed = re.compile(r"^(KIND|VERSION|GROUP|FIELD):|^ {2,}\w+\t<")
    for path in (
        "job",
        "job.spec",
        "job.spec.template.spec",
        "pod.spec.containers",
        "configmap",
        "job.status.conditions",
    ):
        await k("explain", path, only=typed.search)
    await k("explain", "job.spec.none", code=1)
    await k("explain", "nonsense", code=1)


async def test_custom_kinds(k: KubectlPair) -> None:
    schema = {
        "type": "object",
        "description": "What is wanted.",
        "required": ["color"],
        "properties": {
            "color": {"type": "string", "description": "How it looks."},
            "size": {"type": "integer", "default": 3, "maximum": 9},
        },
    }
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    crd = definition(GROUP, schema, plural="gadgets", kind="Gadget", additionalPrinterColumns=columns)
    await k("apply", "-f", "-", stdin=manifest(crd))
    await k("wait", "--for=condition=Established", f"crd/gadgets.{GROUP}", "--timeout=30s")
    await k.until_served(f"gadgets.{GROUP}")
    try:
        await k("apply", "-f", "-", stdin=manifest(thing(GROUP, "t", color="red") | {"kind": "Gadget"}))
        await k("wait", "--for=jsonpath={.spec.size}=3", "gadget/t", "--timeout=20s")
        await k("get", "gadgets")
        await k("get", "ga", "t", "-o", "yaml")
        await k(
            "apply", "-f", "-", stdin=manifest(thing(GROUP, "t", color="red", size=12) | {"kind": "Gadget"}), code=1
        )
        await k("edit", "gadget", "t", EDITOR="sed -i s/color:.red/color:\\ blue/")
        await k("describe", "gadget", "t")
        await k("delete", "gadget", "t")
    finally:
        await k("delete", "crd", f"gadgets.{GROUP}")


async def test_api_resources_and_permissions(k: KubectlPair) -> None:
    ours = re.compile(
        r"^(NAME|configmaps|events|jobs|limitranges|namespaces|nodes|pods|secrets|serviceaccounts|leases)\b"
    )
    await k("api-resources", only=ours.search)
    await k("api-resources", "-o", "wide", only=ours.search)
    await k("auth", "can-i", "create", "jobs")
    await k("auth", "can-i", "delete", "pods", "--subresource=status")
    await k("auth", "can-i", "get", "/metrics")
    await k("auth", "can-i", "dance", "nodes", "-q")
