"""Bodies in protobuf: the four kinds that `kubectl create` sends are decoded, all others are refused with a message."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS, PRIORITY_CLASSES, SECRETS, Resource
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.request_limits import MAX_VALUES
from queue_manager.local.schema import protobuf
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.storage.store import Store
from tests.local.server.world import World, config_map

TYPE = "application/vnd.kubernetes.protobuf"


def number(value: int) -> bytes:
    rest, low = value >> 7, value & 0x7F
    return bytes([low | 0x80]) + number(rest) if rest else bytes([low])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A message with these fields, by number: integers, texts, and bytes or messages."""
    encoded = b""
    for key, value in fields:
        if isinstance(value, int):
            encoded += number(key << 3) + number(value % (1 << 64))
        else:
            data = value.encode() if isinstance(value, str) else value
            encoded += number(key << 3 | 2) + number(len(data)) + data
    return encoded


def body(api_version: str, kind: str, *fields: tuple[int, int | str | bytes]) -> bytes:
    return b"k8s\0" + message((1, message((1, api_version), (2, kind))), (2, message(*fields)), (3, ""), (4, ""))


def named(name: str) -> tuple[int, bytes]:
    """Metadata as Go encodes it: with all fields that are not pointers."""
    return 1, message((1, name), (2, ""), (3, ""), (4, ""), (5, ""), (6, ""), (7, 0), (8, b""))


def entry(key: str, value: str | bytes) -> bytes:
    return message((1, key), (2, value))


CONTAINER = message((1, "main"), (2, "busybox"), (3, "sh"), (3, "-c"), (3, "true"), (5, ""), (8, b""), (16, 0))
POD_SPEC = message((2, CONTAINER), (3, "Never"), (6, ""), (11, 0), (24, ""))
TEMPLATE = message(named(""), (2, POD_SPEC))


async def post(world: World, resource: Resource, sent: bytes, **options: Any) -> Any:
    namespace = "default" if resource.namespaced else ""
    return await world.ask("POST", resource.path(namespace), sent, content_type=TYPE, **options)


@pytest.fixture
def world() -> World:
    world = World()
    world.server = ApiServer(Store(world.clock, random.Random(1)), KindRegistry.builtin(), world.clock)
    return world


async def test_a_job_equals_the_same_job_in_json(world: World) -> None:
    answer = await post(world, JOBS, body("batch/v1", "Job", named("a"), (2, message((6, TEMPLATE))), (3, b"")))
    assert answer.status == 201
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", "true"]}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    tree = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "b"}, "spec": spec}
    twin = await world.ask("POST", JOBS.path("default"), tree)
    ours, theirs = answer.body["spec"]["template"]["spec"], twin.body["spec"]["template"]["spec"]
    assert ours == theirs
    assert (
        answer.body["metadata"]["managedFields"][0]["fieldsV1"] == twin.body["metadata"]["managedFields"][0]["fieldsV1"]
    )


async def test_config_maps_and_secrets_with_text_and_bytes(world: World) -> None:
    data, binary = entry("a", "1"), entry("b", b"\xff\0")
    created = (await post(world, CONFIG_MAPS, body("v1", "ConfigMap", named("c"), (2, data), (3, binary)))).body
    assert (created["data"], created["binaryData"]) == ({"a": "1"}, {"b": "/wA="})
    secret = body("v1", "Secret", named("s"), (2, entry("a", "1")), (2, entry("b", "")), (3, "x/y"))
    created = (await post(world, SECRETS, secret)).body
    assert (created["data"], created["type"]) == ({"a": "MQ==", "b": ""}, "x/y")


async def test_a_namespace_is_created_with_its_finalizer(world: World) -> None:
    created = await post(world, NAMESPACES, body("v1", "Namespace", named("n"), (2, b""), (3, message((1, "")))))
    assert (created.status, created.body["spec"]) == (201, {"finalizers": ["kubernetes"]})


@pytest.mark.parametrize(
    ("resource", "sent", "says"),
    [
        (
            PRIORITY_CLASSES,
            body("scheduling.k8s.io/v1", "PriorityClass", named("p")),
            "does not read PriorityClass in protobuf; send JSON or YAML, with kubectl: "
            "kubectl create priorityclass NAME --value=VALUE --dry-run=client -o yaml | kubectl apply -f -",
        ),
        (PODS, body("v1", "Pod", named("p")), "does not read Pod in protobuf; send JSON or YAML, with"),
        (JOBS, body("batch/v1", "Job", named("a"), (17, "x")), "does not read field 17 of Job in protobuf"),
        (JOBS, body("batch/v1", "Job", (2, message((10, 1)))), "does not read field 10 of spec of Job in protobuf"),
        (
            JOBS,
            body("batch/v1", "Job", (2, message((6, message((2, message((18, b"")))))))),
            "does not read field 18 of spec.template.spec of Job in protobuf",
        ),
        (CONFIG_MAPS, body("v1", "ConfigMap", (2, message((1, "a"), (3, "x")))), "does not read field 3 of data of"),
    ],
)  # fmt: skip
async def test_an_unknown_field_is_refused_and_not_dropped(
    world: World, resource: Resource, sent: bytes, says: str
) -> None:
    answer = await post(world, resource, sent)
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")
    assert says in answer.body["message"]


async def test_kubectl_drain_without_eviction_gets_a_message_with_the_remedy(world: World) -> None:
    await world.ask("POST", CONFIG_MAPS.path("default"), config_map("c"))
    path = CONFIG_MAPS.path("default", "c")
    answer = await world.ask("DELETE", path, body("v1", "DeleteOptions"), content_type=TYPE)
    assert answer.status == 415
    assert answer.body["message"].endswith("with kubectl: kubectl drain without --disable-eviction")


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"{}", "it does not begin with the magic number of Kubernetes"),
        (b"k8s\0" + message((1, 5)), "typeMeta is a number"),
        (b"k8s\0" + b"\x80" * 11, "it ends within a number, or the number is too large"),
        (b"k8s\0" + b"\x0a\x05v", "it ends within a field"),
        (b"k8s\0" + b"\x0d1234", "field 1 has wire type 5"),
        (b"k8s\0" + message((2, ""), (3, "gzip")), "the object in it is encoded or of another content type"),
        (body("v1", "ConfigMap", (1, message((7, "x")))), "metadata.generation is not a number"),
        (body("v1", "ConfigMap", (1, message((1, b"\xff")))), "metadata.name is not UTF-8"),
        (body("v1", "ConfigMap", *[(2, b"")] * (MAX_VALUES + 1)), f"it has more than {MAX_VALUES} values"),
    ],
)
async def test_invalid_protobuf_is_a_bad_request(world: World, sent: bytes, says: str) -> None:
    answer = await post(world, CONFIG_MAPS, sent)
    assert (answer.status, answer.body["message"]) == (400, f"the body is not valid protobuf: {says}")


async def test_another_kind_than_that_of_the_url_is_refused(world: World) -> None:
    answer = await post(world, SECRETS, body("v1", "ConfigMap", named("c")))
    assert answer.status == 400
    assert "ConfigMap in version" in answer.body["message"]


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_an_object_or_refused(sent: bytes, framed: bool) -> None:
    """Any other exception would be answered with 500."""
    job = message((1, message((1, "batch/v1"), (2, "Job"))), (2, sent))
    with suppress(protobuf.Malformed, protobuf.NotKnown):
        assert protobuf.decode(b"k8s\0" + (job if framed else sent))["kind"] == "Job"
