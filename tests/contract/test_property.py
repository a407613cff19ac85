"""Generated sequences of requests get the same answers from both servers.

Each example is a sequence in a namespace of its own: creations, updates, patches, status writes, deletions and reads of
a few names in four kinds, with bodies that often have one mistake. CI always plays the same sequences; elsewhere they
differ from run to run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from queue_manager.api.api_resources import CONFIG_MAPS, CRDS, JOBS, NAMESPACES, PODS, Resource
from queue_manager.engine.transport_protocol import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request
from tests.contract import servers
from tests.contract.bodies import config_map, definition, job, pod, thing
from tests.contract.normal import Normal
from tests.contract.servers import Server
from tests.contract.session import _decoded, _warnings, difference
from tests.control_plane.server import ControlPlane

Json = Any
SEQUENCES = 100
LENGTH = (15, 30)
REQUESTS = 2000  # per run, at least
GROUP = "sequences.example.com"
THINGS = Resource(GROUP, "v1", "things", "Thing")
KINDS = (CONFIG_MAPS, JOBS, PODS, THINGS)
NAMES = ("a", "a", "b", "c")


@dataclass(frozen=True)
class Step:
    """A request; `version` says which resourceVersion goes into a body: none, the last seen, or an old one."""

    method: str
    resource: Resource
    name: str
    subresource: str = ""
    body: Json = None
    type: str = JSON
    query: tuple[tuple[str, str], ...] = ()
    version: str = "none"


# --- generated bodies ----------------------------------------------------------------------------------------

small = st.integers(-1, 5)
words = st.sampled_from(["x", "y", "", "Z z", "-", "a" * 64])
label_maps = st.dictionaries(st.sampled_from(["team", "example.com/a", "-bad", "a b"]), words, max_size=2)
finalizers = st.lists(st.sampled_from(["example.com/hold", "example.com/b", "bad", "orphan"]), max_size=2)
metas = st.fixed_dictionaries(
    {},
    optional={
        "labels": label_maps,
        "annotations": st.dictionaries(st.sampled_from(["note", "-x"]), words, max_size=2),
        "finalizers": finalizers,
        "generation": small,
        "namespace": st.sampled_from(["elsewhere"]),
        "unknown": st.just(1),
    },
)
datas = st.dictionaries(st.sampled_from(["k", "l", "a/b"]), st.one_of(words, st.integers(0, 2)), max_size=2)
job_specs = st.fixed_dictionaries(
    {},
    optional={
        "parallelism": st.one_of(small, st.just("2")),
        "completions": small,
        "backoffLimit": small,
        "suspend": st.one_of(st.booleans(), st.none()),
        "completionMode": st.sampled_from(["Indexed", "NonIndexed", "Other"]),
        "activeDeadlineSeconds": small,
        "ttlSecondsAfterFinished": small,
        "backoffLimitPerIndex": small,
        "podReplacementPolicy": st.sampled_from(["Failed", "TerminatingOrFailed", "Never"]),
        "managedBy": st.sampled_from(["example.com/me", "me"]),
        "unknown": st.just({}),
    },
)
pod_specs = st.fixed_dictionaries(
    {},
    optional={
        "restartPolicy": st.sampled_from(["Always", "Never", "Sometimes"]),
        "activeDeadlineSeconds": small,
        "terminationGracePeriodSeconds": small,
        "nodeName": st.sampled_from(["n", "m"]),
        "tolerations": st.just([{"key": "k", "operator": "Exists"}]),
        "containers": st.sampled_from(
            [[], [{"name": "main", "image": "app:2"}], [{"name": "Main"}], [{"name": "main", "image": "app:1"}] * 2]
        ),
    },
)
thing_specs = st.fixed_dictionaries(
    {},
    optional={
        "size": st.one_of(st.integers(0, 12), st.just("1")),
        "color": st.sampled_from(["red", "green", "mauve"]),
        "extra": st.just(1),
        "tags": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        "ports": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["p", "q"])}, optional={"port": small}), max_size=2
        ),
    },
)
job_statuses = st.fixed_dictionaries(
    {},
    optional={
        "active": small,
        "ready": small,
        "succeeded": small,
        "failed": small,
        "startTime": st.sampled_from(["2026-01-01T00:00:00Z", "soon"]),
        "conditions": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["Suspended", "Failed", "FailureTarget"]),
                    "status": st.sampled_from(["True", "False", "Perhaps"]),
                }
            ),
            max_size=2,
        ),
    },
)
pod_statuses = st.fixed_dictionaries(
    {}, optional={"phase": st.sampled_from(["Pending", "Running", "Succeeded"]), "podIP": st.just("10.0.0.1")}
)


modest = st.one_of(st.just({}), st.just({}), metas)  # most bodies have at most one mistake


def bodies(resource: Resource, name: str) -> st.SearchStrategy[Json]:
    match resource.kind:
        case "ConfigMap":
            return st.builds(lambda data, meta: config_map(name, data, **meta), datas, modest)
        case "Job":
            return st.builds(lambda spec, meta: job(name, spec, **meta), job_specs, modest)
        case "Pod":
            return st.builds(lambda spec, meta: pod(name, spec, **meta), pod_specs, modest)
    return st.builds(
        lambda spec, meta: (body := thing(GROUP, name, **spec)) | {"metadata": body["metadata"] | meta},
        thing_specs,
        modest,
    )


def statuses(resource: Resource) -> st.SearchStrategy[Json]:
    return {"Job": job_statuses, "Pod": pod_statuses}.get(resource.kind, st.just({"phase": "x"}))


def contents(resource: Resource) -> st.SearchStrategy[Json]:
    """The content of a merge patch below the top level of a kind."""
    specs = {"ConfigMap": datas, "Job": job_specs, "Pod": pod_specs, "Thing": thing_specs}[resource.kind]
    key = "data" if resource.kind == "ConfigMap" else "spec"
    return st.one_of(
        specs.map(lambda value: {key: value}),
        metas.map(lambda value: {"metadata": value}),
        st.builds(lambda value, meta: {key: value, "metadata": meta}, specs, metas),
    )


operations = st.lists(
    st.one_of(
        st.builds(
            lambda op, path, value: {"op": op, "path": path, "value": value},
            st.sampled_from(["add", "replace", "test"]),
            st.sampled_from(["/metadata/labels", "/data/k", "/spec/parallelism", "/spec/none/x", "/metadata/labels/t"]),
            st.one_of(words, small, st.just({"t": "u"})),
        ),
        st.builds(
            lambda path: {"op": "remove", "path": path}, st.sampled_from(["/metadata/labels", "/data/k", "/spec/none"])
        ),
    ),
    min_size=1,
    max_size=2,
)
modes = st.sampled_from(
    [(), (), (("fieldValidation", "Strict"),), (("fieldValidation", "Ignore"),), (("dryRun", "All"),)]
)
versions = st.sampled_from(["none", "none", "last", "old"])


@st.composite
def steps(draw: st.DrawFn) -> Step:
    resource, name = draw(st.sampled_from(KINDS)), draw(st.sampled_from(NAMES))
    verb = draw(
        st.sampled_from(["create"] * 4 + ["update"] * 3 + ["patch"] * 4 + ["status"] * 2 + ["delete", "list", "get"])
    )
    match verb:
        case "create":
            return Step("POST", resource, "", body=draw(bodies(resource, name)), query=draw(modes))
        case "update":
            body = draw(bodies(resource, name))
            return Step("PUT", resource, name, body=body, query=draw(modes), version=draw(versions))
        case "patch":
            language = draw(st.sampled_from([MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH]))
            patch = draw(operations if language == JSON_PATCH else contents(resource))
            return Step("PATCH", resource, name, body=patch, type=language, query=draw(modes))
        case "status":
            patch = {"status": draw(statuses(resource))}
            return Step("PATCH", resource, name, "status", patch, MERGE_PATCH, draw(modes))
        case "delete":
            options = draw(
                st.sampled_from(
                    [
                        (),
                        (("propagationPolicy", "Background"),),
                        (("propagationPolicy", "Foreground"),),
                        (("gracePeriodSeconds", "0"),),
                        (("gracePeriodSeconds", "5"),),
                        (("dryRun", "All"),),
                    ]
                )
            )
            return Step("DELETE", resource, name, query=options)
        case "list":
            query = draw(
                st.sampled_from([(), (("labelSelector", "team=x"),), (("limit", "1"),), (("fieldSelector", "a=b"),)])
            )
            return Step("GET", resource, "", query=query)
    return Step("GET", resource, name)


# --- two servers ---------------------------------------------------------------------------------------------


@dataclass
class Side:
    """One server in one sequence, with the versions of each object that it has answered."""

    server: Server
    normal: Normal
    namespace: str
    seen: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    async def play(self, step: Step) -> Json:
        """Send a step; returns the normalized answer."""
        body = json.loads(json.dumps(step.body))
        known = self.seen.setdefault((step.resource.plural, step.name), [])
        if step.version != "none" and known:
            body["metadata"]["resourceVersion"] = known[-1] if step.version == "last" else known[0]
        answer = await self.server.transport.request(
            Request(
                step.method,
                step.resource.path(self.namespace, step.name, step.subresource),
                query=dict(step.query) or None,
                body=None if body is None else json.dumps(body).encode(),
                content_type=step.type,
            )
        )
        tree = _decoded(answer.body)
        self._remember(step, answer.status, tree)
        shown = _unordered(self.normal.tree(tree))
        return {"status": answer.status, "warnings": _warnings(answer.headers), "body": shown}

    def _remember(self, step: Step, status: int, tree: Json) -> None:
        if status < 300 and isinstance(tree, dict) and tree.get("metadata", {}).get("name"):
            meta = tree["metadata"]
            self.seen.setdefault((step.resource.plural, meta["name"]), []).append(meta.get("resourceVersion", ""))


def _unordered(answer: Json) -> Json:
    """A refusal with its causes sorted and without repetitions: Go iterates over maps in random order."""
    causes = (answer.get("details") or {}).get("causes") if isinstance(answer, dict) else None
    if not causes:
        return answer
    once = {json.dumps(cause, sort_keys=True): cause for cause in causes}
    details = answer["details"] | {"causes": [once[key] for key in sorted(once)]}
    return answer | {"details": details, "message": answer["message"].partition(": ")[0]}


@dataclass
class Pair:
    embedded: Server
    real: Server
    requests: int = 0
    agreed: dict[int, int] = field(default_factory=dict)  # number of equal answers by HTTP status

    async def compare(self, sequence: list[Step]) -> None:
        """Play a sequence on both servers. Raises AssertionError at the first answer that differs."""
        name = f"sequence-{secrets.token_hex(4)}"
        sides = []
        for server in (self.real, self.embedded):
            await create_namespace(server, name)
            sides.append(Side(server, Normal({name: "NAMESPACE"}, versions=False), name))
        for step in [*PRELUDE, *sequence]:
            recorded, found = [await side.play(step) for side in sides]
            self.requests += 1
            assert recorded == found, f"{step}\n{difference(recorded, found)}"
            self.agreed[recorded["status"]] = self.agreed.get(recorded["status"], 0) + 1


# One object of each kind, so that the sequence has something to change.
PRELUDE = [
    Step("POST", CONFIG_MAPS, "", body=config_map("a")),
    Step("POST", JOBS, "", body=job("a", {"completions": 3})),
    Step("POST", PODS, "", body=pod("a", {"nodeName": "n"})),
    Step("POST", THINGS, "", body=thing(GROUP, "a", color="red")),
    Step("POST", CONFIG_MAPS, "", body=config_map("b", None, finalizers=["example.com/hold"])),
    Step("POST", JOBS, "", body=job("b", {"suspend": True})),
]


async def create_namespace(server: Server, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    answer = await server.transport.request(Request("POST", NAMESPACES.path(), body=json.dumps(body).encode()))
    assert answer.status == 201, answer.body


def crd() -> Json:
    """A kind with defaults, limits, a set and a list with keys."""
    port = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
    }
    schema = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
            "color": {"type": "string", "enum": ["red", "green"]},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": port,
            },
        },
    }
    return definition(GROUP, schema)


async def define(server: Server) -> None:
    answer = await server.transport.request(Request("POST", CRDS.path(), body=json.dumps(crd()).encode()))
    assert answer.status == 201, answer.body
    async with asyncio.timeout(30):
        while (await server.transport.request(Request("GET", THINGS.path()))).status != 200:
            await asyncio.sleep(0.02)


@pytest.mark.control_plane
@pytest.mark.timeout(300)
def test_generated_requests_get_the_same_answers_from_both_servers(
    control_plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        pair = Pair(
            runner.run(stack.enter_async_context(servers.embedded(tmp_path))),
            runner.run(stack.enter_async_context(servers.real(control_plane))),
        )
        for server in (pair.embedded, pair.real):
            runner.run(define(server))

        @settings(
            max_examples=SEQUENCES,
            derandomize=bool(os.environ.get("CI")),
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.lists(steps(), min_size=LENGTH[0], max_size=LENGTH[1]))
        def play(sequence: list[Step]) -> None:
            runner.run(pair.compare(sequence))

        try:
            play()
            while pair.requests < REQUESTS:
                play()
        finally:
            runner.run(stack.aclose())
    with capsys.disabled():
        print(
            f"\n{pair.requests} generated requests answered alike; by HTTP status: {dict(sorted(pair.agreed.items()))}"
        )
