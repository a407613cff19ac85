"""The configuration that managers publish, and how commands find the one for the Jobs of a namespace."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args, get_origin

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, LEASES, NAMESPACES
from queue_manager.api.component_names import CONFIG_MAP, NAMESPACE, PUBLIC_NAMESPACE, PUBLISHED_CONFIG
from queue_manager.cli.left_configurations import read_left_configurations
from queue_manager.cli.manager_reading import has_configuration, read_presence
from queue_manager.cli.published_config import history_url, published
from queue_manager.configuration import KueueConfig, loads
from queue_manager.configuration.config_as_yaml import as_yaml
from queue_manager.configuration.config_field_types import ConfigModel
from queue_manager.configuration.config_map import KEY
from queue_manager.configuration.published_form import published_data
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request, Response
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.operator.config_publication import ConfigPublication, publish
from tests.waiting import until

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
FIRST, SECOND = (loads(f"{HEAD}waitForPodsReady: {{timeout: {time}}}\n") for time in ("3s", "5m"))
SECRETS = loads(
    f"{HEAD}history: {{url: 'postgresql://me:secret-a@db/h'}}\n"
    "notifications: {webhook: {url: 'https://hooks/secret-b', secretFile: /key}, command: [notify, secret-c]}\n"
)
# Names, addresses and paths.
HARMLESS = """
    admissionFairSharing.resourceWeights controller.groupKindConcurrency fairSharing.preemptionStrategies
    featureGates health.healthProbeBindAddress health.livenessEndpointName health.readinessEndpointName
    integrations.externalFrameworks integrations.frameworks integrations.labelKeysToCopy
    internalCertManagement.webhookSecretName internalCertManagement.webhookServiceName
    leaderElection.resourceLock leaderElection.resourceName leaderElection.resourceNamespace
    managedJobsNamespaceSelector.matchExpressions.key managedJobsNamespaceSelector.matchExpressions.values
    managedJobsNamespaceSelector.matchLabels metrics.bindAddress metrics.customLabels.name
    metrics.customLabels.sourceAnnotationKey metrics.customLabels.sourceLabelKey
    metrics.customLabels.trackedValues metrics.localQueueMetrics.localQueueSelector.matchExpressions.key
    metrics.localQueueMetrics.localQueueSelector.matchExpressions.values
    metrics.localQueueMetrics.localQueueSelector.matchLabels multiKueue.dispatcherName
    multiKueue.externalFrameworks.name multiKueue.origin namespace pprofBindAddress
    resources.deviceClassMappings.deviceClassNames resources.deviceClassMappings.name
    resources.excludeResourcePrefixes resources.transformations.input resources.transformations.multiplyBy
    resources.transformations.outputs tls.cipherSuites tls.minVersion visibilityServer.bindAddress
    webhook.certDir webhook.host
"""


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def client() -> RestClient:
    clock, rng = Clock(), random.Random(1)
    return RestClient(LocalTransport(ApiServer(Store(clock, rng), KindRegistry.builtin(), clock)))


def timeout(config: KueueConfig | None) -> float | None:
    waiting = config.wait_for_pods_ready if config is not None else None
    return waiting.timeout.total_seconds() if waiting is not None else None


async def published_in(client: RestClient, namespace: str) -> dict[str, str]:
    return dict((await client.get(CONFIG_MAPS, namespace, PUBLISHED_CONFIG)).get("data") or {})


async def test_the_last_published_configuration_is_read(client: RestClient) -> None:
    assert await published(client) is None
    publication = ConfigPublication(client, (), published_data(FIRST))
    assert await publication.write()
    assert timeout(await published(client)) == 3
    publication.put(published_data(SECOND))
    await publication.write()
    assert timeout(await published(client)) == 300


async def test_a_changed_configuration_is_written_while_the_manager_runs(client: RestClient) -> None:
    publication = ConfigPublication(client, (), published_data(FIRST))
    task = asyncio.create_task(publication.run())
    try:
        for config, seconds in ((FIRST, 3), (SECOND, 300)):
            publication.put(published_data(config))

            async def is_seen(seconds: int = seconds) -> bool:
                return timeout(await published(client)) == seconds

            await until(is_seen, "the configuration is published")
    finally:
        task.cancel()


async def test_what_is_published_already_is_not_written_again(
    client: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, request = [], client.transport.request

    async def noted(each: Request) -> Response:
        sent.append(each.method)
        return await request(each)

    monkeypatch.setattr(client.transport, "request", noted)
    for config in (FIRST, FIRST, SECOND):
        await publish(client, PUBLIC_NAMESPACE, published_data(config))
    assert sent == ["GET", "POST", "GET", "GET", "PATCH"]


async def test_a_key_of_another_version_is_removed(client: RestClient) -> None:
    await publish(client, PUBLIC_NAMESPACE, {**published_data(FIRST), "old": "1"})
    await publish(client, PUBLIC_NAMESPACE, published_data(FIRST))
    assert await published_in(client, PUBLIC_NAMESPACE) == published_data(FIRST)


async def test_a_manager_of_listed_namespaces_has_precedence_in_these(client: RestClient) -> None:
    for name in ("team-a", "team-b"):
        await client.create(NAMESPACES, "", {"metadata": {"name": name}})
    assert await ConfigPublication(client, ["team-a"], published_data(FIRST, ["team-a"])).write()
    assert timeout(await published(client, ["team-a"])) == 3
    assert await published(client, ["team-b"]) is None
    assert await published(client) is None
    await ConfigPublication(client, (), published_data(SECOND)).write()
    assert [timeout(await published(client, each)) for each in (["team-a"], ["team-b"], ["team-a", "team-b"], [])] == [
        3,
        300,
        300,
        300,
    ]


OWN, OF_ALL = ("team-a", "own"), ("queue", "of-all")


async def hold(client: RestClient, lease: tuple[str, str], holder: str, ago: float = 0) -> None:
    spec = {
        "holderIdentity": holder,
        "renewTime": (SystemClock().now() - timedelta(seconds=ago)).isoformat().replace("+00:00", "Z"),
        "leaseDurationSeconds": 15,
    }
    await client.create(LEASES, lease[0], {"metadata": {"name": lease[1]}, "spec": spec})


async def left_by(client: RestClient) -> dict[str, str]:
    """The Leases that doctor names of managers that have left what they published, by namespace."""
    not_read: list[str] = []
    found = await read_left_configurations(client, "", not_read)
    assert not_read == []
    return {each.namespace: each.lease for each in found}


@pytest.mark.parametrize(
    ("own", "of_all", "is_left"),
    [
        ({"holder": "a", "ago": 30}, {"holder": "b"}, False),
        ({"holder": "a", "ago": 61}, {"holder": "b"}, True),
        ({"holder": ""}, {"holder": "b"}, True),
        ({"holder": "another"}, {"holder": "b"}, True),
        (None, {"holder": "b"}, True),
        (None, {"holder": "b", "ago": 61}, False),
        (None, None, False),
    ],
    ids=["runs", "not renewed", "released", "held by another", "deleted", "none runs", "none exists"],
)
async def test_what_an_ended_manager_has_left_in_a_namespace_has_no_precedence(
    client: RestClient, own: dict[str, Any] | None, of_all: dict[str, Any] | None, is_left: bool
) -> None:
    for name in (OWN[0], OF_ALL[0]):
        await client.create(NAMESPACES, "", {"metadata": {"name": name}})
    for lease, held in ((OWN, own), (OF_ALL, of_all)):
        if held is not None:
            await hold(client, lease, **held)
    await publish(client, "team-a", published_data(FIRST, ["team-a"], OWN, holder="a"))
    await publish(client, PUBLIC_NAMESPACE, published_data(SECOND, (), OF_ALL, holder="b"))
    assert timeout(await published(client, ["team-a"])) == (300 if is_left else 3)
    assert await left_by(client) == ({"team-a": "team-a/own"} if is_left else {})


async def test_an_installation_that_changes_to_all_namespaces_keeps_its_lease(client: RestClient) -> None:
    for name in (OWN[0], OF_ALL[0]):
        await client.create(NAMESPACES, "", {"metadata": {"name": name}})
    await hold(client, OF_ALL, "second")
    await publish(client, "team-a", published_data(FIRST, ["team-a"], OF_ALL, holder="first"))
    await publish(client, PUBLIC_NAMESPACE, published_data(SECOND, (), OF_ALL, holder="second"))
    assert timeout(await published(client, ["team-a"])) == 300
    assert await left_by(client) == {"team-a": "queue/of-all"}


async def test_a_manager_whose_lease_cannot_be_read_keeps_its_precedence(
    client: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = client.transport.request

    async def bounded(each: Request) -> Response:
        forbidden = Response(403, {}, b'{"kind":"Status","message":"no","reason":"Forbidden"}')
        return forbidden if each.path.endswith("/leases/own") else await request(each)

    for name in ("team-a", OF_ALL[0]):
        await client.create(NAMESPACES, "", {"metadata": {"name": name}})
    await hold(client, OF_ALL, "b")
    await publish(client, "team-a", published_data(FIRST, ["team-a"], OWN, holder="a"))
    await publish(client, PUBLIC_NAMESPACE, published_data(SECOND, (), OF_ALL, holder="b"))
    monkeypatch.setattr(client.transport, "request", bounded)
    assert timeout(await published(client, ["team-a"])) == 3


async def test_without_a_lease_it_is_not_known_whether_a_manager_has_ended(client: RestClient) -> None:
    for name in ("team-a", OF_ALL[0]):
        await client.create(NAMESPACES, "", {"metadata": {"name": name}})
    await hold(client, OF_ALL, "b")
    await publish(client, "team-a", published_data(FIRST, ["team-a"]))
    await publish(client, PUBLIC_NAMESPACE, published_data(SECOND, (), OF_ALL, holder="b"))
    assert timeout(await published(client, ["team-a"])) == 3
    assert await left_by(client) == {"team-a": ""}


async def test_a_configuration_that_selects_the_own_listed_namespace_is_read(client: RestClient) -> None:
    config = loads(HEAD, own_namespace="team-a", namespaces=["team-a"])
    await client.create(NAMESPACES, "", {"metadata": {"name": "team-a"}})
    await ConfigPublication(client, ["team-a"], published_data(config, ["team-a"])).write()
    assert timeout(await published(client, ["team-a"])) == 1800


async def test_an_installation_of_an_earlier_version_is_read(client: RestClient) -> None:
    await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    await client.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": CONFIG_MAP}, "data": {KEY: as_yaml(FIRST)}})
    assert timeout(await published(client, ["team-a"])) == 3


@pytest.mark.parametrize("data", [None, {KEY: "newField: 1"}], ids=["not written yet", "of a newer version"])
async def test_what_cannot_be_used_counts_as_absent(client: RestClient, data: dict[str, str] | None) -> None:
    tree = {"metadata": {"name": PUBLISHED_CONFIG}, **({"data": data} if data else {})}
    await client.create(CONFIG_MAPS, PUBLIC_NAMESPACE, tree)
    assert await published(client) is None


async def test_a_user_without_rights_gets_no_configuration(
    client: RestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def forbidden(_: Request) -> Response:
        return Response(403, {}, b'{"kind":"Status","message":"no","reason":"Forbidden"}')

    publication = ConfigPublication(client, ["team-a"], published_data(FIRST))
    monkeypatch.setattr(client.transport, "request", forbidden)
    assert await published(client, ["team-a"]) is None
    for _ in range(2):
        assert not await publication.write()
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # once, with the remedy
    assert "grant get, patch and create of ConfigMap sluice-published-config" in caplog.text


async def test_a_namespace_that_does_not_exist_is_one_warning(
    client: RestClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create(NAMESPACES, "", {"metadata": {"name": "team-b"}})
    assert not await ConfigPublication(client, ["gone", "team-b"], published_data(FIRST)).write()
    assert len(caplog.records) == 1
    assert timeout(await published(client, ["team-b"])) == 3  # the others are written


@pytest.mark.parametrize("failure", [OSError("reset"), b"<html>", 503], ids=str)
async def test_a_write_is_repeated_while_the_server_does_not_answer(
    client: RestClient, monkeypatch: pytest.MonkeyPatch, failure: OSError | bytes | int
) -> None:
    answers, request = [failure, failure], client.transport.request

    async def failing(each: Request) -> Response:
        if not answers:
            return await request(each)
        found = answers.pop()
        if isinstance(found, OSError):
            raise found
        return Response(found, {}, b"") if isinstance(found, int) else Response(200, {}, found)

    async def no_pause(_: float) -> None:
        pass

    monkeypatch.setattr(client.transport, "request", failing)
    monkeypatch.setattr(asyncio, "sleep", no_pause)
    assert await ConfigPublication(client, (), published_data(FIRST)).write()
    assert answers == []


async def test_secrets_are_not_published(client: RestClient) -> None:
    await ConfigPublication(client, (), published_data(SECRETS)).write()
    text = str(await client.get(CONFIG_MAPS, PUBLIC_NAMESPACE, PUBLISHED_CONFIG))
    assert "secret-" not in text
    assert "leftOut': 'history.url,notifications'" in text
    assert await history_url(client) is None  # it is set, and not known
    await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    await client.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": CONFIG_MAP}, "data": {KEY: as_yaml(SECRETS)}})
    assert await history_url(client) == "postgresql://me:secret-a@db/h"  # of the installation, for admins


@pytest.mark.parametrize("url", ["", "sqlite:////data/history.db"])
async def test_a_history_in_a_file_is_published(client: RestClient, url: str) -> None:
    await ConfigPublication(client, (), published_data(loads(f"{HEAD}history: {{url: '{url}'}}\n"))).write()
    assert await history_url(client) == url


def test_each_published_text_is_known_to_hold_no_secret() -> None:
    """A new field of the configuration that holds free text needs a decision in `published_form`."""
    assert set(texts(KueueConfig)) - {"history.url"} == set(HARMLESS.split())


def texts(model: type[ConfigModel], above: str = "") -> Iterator[str]:
    """Yield the fields that hold free text and that are part of what is written into files."""
    for field in model.model_fields.values():
        path, parts = f"{above}{field.alias}", list(parts_of(field.annotation))
        if field.exclude or path == "notifications":
            continue
        for part in parts:
            if isinstance(part, type) and issubclass(part, ConfigModel):
                yield from texts(part, f"{path}.")
        if str in parts:
            yield path


def parts_of(annotation: object) -> Iterator[object]:
    """Yield the types in an annotation, without the values of Literals."""
    yield annotation
    if get_origin(annotation) is not Literal:
        for each in get_args(annotation):
            yield from parts_of(each)


async def test_an_election_is_published_as_it_is_held() -> None:
    data = published_data(KueueConfig(), (), ("queue", "lease-a"))
    assert data["lease"] == "queue/lease-a"
    election = loads(data[KEY]).leader_election
    assert (election.leader_elect, election.resource_namespace, election.resource_name) == (True, "queue", "lease-a")
    assert not loads(published_data(KueueConfig())[KEY]).leader_election.leader_elect


async def test_the_lease_that_a_manager_has_published_shows_whether_it_runs(client: RestClient) -> None:
    assert (await read_presence(client, "default")).absent.startswith("Sluice is not installed")
    assert not await has_configuration(client, "default")
    await publish(client, PUBLIC_NAMESPACE, published_data(FIRST, (), ("kube-node-lease", "mine")))
    assert await has_configuration(client)
    assert (await read_presence(client, "default")).absent == ""  # there is no Lease, nor a Deployment
    await publish(client, PUBLIC_NAMESPACE, published_data(FIRST))  # without leader election
    assert (await read_presence(client, "default")).absent == ""
