"""Reads what `sluice doctor` examines, as far as the user may read it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from job_controller.conditions import finished
from job_controller.event_reasons import CREATE_FAILED
from job_controller.json_tree import Json
from job_controller.model import Job, Key, Pod
from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    CRDS,
    EVENTS,
    JOBS,
    LEASES,
    LOCAL_QUEUES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    VALIDATING_WEBHOOKS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.api.component_names import CONVERSION_SERVICE
from queue_manager.api.event_reasons import QUEUEING_REFUSED
from queue_manager.api.events import Event
from queue_manager.api.types import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    Namespace,
    PriorityClass,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)
from queue_manager.cli.api_error_text import conversion_failure
from queue_manager.cli.installation_reading import (
    dead_conversions,
    read_missing_secret,
    read_unavailable_apis,
    read_webhook_services,
)
from queue_manager.cli.lease_reading import lease_facts
from queue_manager.cli.left_configurations import read_left_configurations
from queue_manager.cli.manager_place import own_services, read_place
from queue_manager.cli.manager_reading import has_configuration, read_deployment
from queue_manager.cli.node_reading import Node, node_facts
from queue_manager.cli.permitted_lists import list_permitted, seen
from queue_manager.cli.published_config import installed, published
from queue_manager.cli.queue_reading import resource_rules
from queue_manager.configuration import KueueConfig
from queue_manager.engine import kubeconfig as kubeconfigs
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import O, RestClient
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response, Transport
from queue_manager.local.kubeconfig_file import is_of_local_cluster
from queue_manager.scheduling.resource_rules import COUNT_ALL
from queue_manager.visibility.diagnosis.image_pulls import PULLED, image_pulls
from queue_manager.visibility.diagnosis.snapshot import (
    CertificateFacts,
    ClockFacts,
    ClusterSnapshot,
    HistoryFacts,
)
from queue_manager.visibility.obstacles import pod_class

HEADER_RESOLUTION = timedelta(seconds=1)  # of the Date header, and of the times that an API server stamps
CONNECT_SECONDS = 10.0
OPTIONAL = (COHORTS, ADMISSION_CHECKS, WORKLOAD_PRIORITY_CLASSES)  # kinds without which the others are of use
OTHERS = "namespaces other than {} (forbidden)"
UNKNOWN_CONFIG = "the configuration of the manager (not published, or forbidden)"
NOT_INSTALLED = "whether a manager runs (Sluice is not installed in namespace {}, and none has held a Lease there)"
HISTORY_STALLED_SECONDS, HISTORY_QUEUED = "sluice_history_stalled_seconds", "sluice_history_records_queued"
RENEW_LOCAL = "sluice down; sluice up --detach"
RENEW_MANAGER = "kubectl rollout restart deployment -n {}"


class ServerClock:
    """The API server's clock, from the Date headers of its responses."""

    def __init__(self) -> None:
        self._best: ClockFacts | None = None

    def over(self, transport: Transport) -> Transport:
        """Return the transport with its responses observed."""
        return _ObservedTransport(transport, self)

    def observe(self, date: str, sent: datetime, received: datetime) -> None:
        """Keep the measurement with the shortest round trip, which is the most exact."""
        try:
            stamped = parsedate_to_datetime(date)
        except ValueError:
            return
        middle = sent + (received - sent) / 2
        uncertainty = HEADER_RESOLUTION / 2 + (received - sent) / 2
        found = ClockFacts("this machine", middle - (stamped + HEADER_RESOLUTION / 2), uncertainty)
        if self._best is None or found.uncertainty < self._best.uncertainty:
            self._best = found

    @property
    def facts(self) -> ClockFacts | None:
        """How far this machine's clock is ahead; None without a response that has a date."""
        return self._best

    def now(self) -> datetime:
        """The time of the API server, by the dates of its responses; the local time if none had a date."""
        return SystemClock().now() - (self._best.ahead if self._best is not None else timedelta(0))


class _ObservedTransport(Relay):
    def __init__(self, inner: Transport, clock: ServerClock) -> None:
        super().__init__(inner)
        self._clock = clock

    async def request(self, request: Request) -> Response:
        sent = SystemClock().now()
        response = await super().request(request)
        if date := response.header("date"):
            self._clock.observe(date, sent, SystemClock().now())
        return response


class ClusterReader:
    """Reads snapshots of one cluster. `not_read`: what the last one lacks; `topics_read`: how many it has."""

    def __init__(
        self,
        client: RestClient,
        kubeconfig: Path,
        context: str | None,
        clock: ServerClock,
        namespace: str = "",
        *,
        is_narrowed: bool = False,
    ) -> None:
        """`namespace`: the only one whose objects are read, with those that have none; "": all.

        `is_narrowed`: whether it is read because the user may not read all.
        """
        self.is_narrowed = is_narrowed
        self._client = client
        self._namespace = namespace
        self._kubeconfig = kubeconfig
        self._context = context
        self._clock = clock
        self.not_read: list[str] = []
        self.topics_read = 0
        self._unconverted: dict[str, str] = {}  # what is wrong with the conversion webhook, by CRD

    async def read(self) -> ClusterSnapshot:
        """Read everything; objects that refer to others before those. Raises ApiError if Sluice is not installed."""
        self.not_read, self.topics_read, self._unconverted = [], 0, {}
        if self.is_narrowed:
            self.not_read.append(OTHERS.format(self._namespace))
        validating, mutating = await self._trees(VALIDATING_WEBHOOKS), await self._trees(MUTATING_WEBHOOKS)
        of_hooks = {UNKNOWN_CONFIG, *self.not_read}
        with self._topic():
            config = await published(self._client, self._own)
            of_lease = config.leader_election.resource_namespace if config is not None else ""
            home = await read_place(self._client, of_lease, [*validating, *mutating])
            if config is None and (config := await installed(self._client, home)) is None:
                self.not_read.append(UNKNOWN_CONFIG)
        with self._topic():
            lease = await self._lease(config or KueueConfig(), home)
        with self._topic():
            deployment = await read_deployment(self._client, self.not_read, home)
            is_absent = not (deployment or config or set(self.not_read) - of_hooks) and not (
                await has_configuration(self._client, self._namespace, home)
            )
        if is_absent and lease is None and not is_of_local_cluster(self._kubeconfig):
            self.not_read.append(NOT_INSTALLED.format(home))
        workloads = await self._seen(WORKLOADS, Workload)
        pods = await self._seen(PODS, Pod)
        jobs = await self._seen(JOBS, Job)
        local_queues = await self._seen(LOCAL_QUEUES, LocalQueue)
        cluster_queues = await self._seen(CLUSTER_QUEUES, ClusterQueue)
        cohorts = await self._seen(COHORTS, Cohort)
        flavors = await self._seen(RESOURCE_FLAVORS, ResourceFlavor)
        classes = await self._seen(WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
        names_class = any(pod_class(job) and finished(job.status) is None for job in jobs or ())
        pod_classes = await self._seen(PRIORITY_CLASSES, PriorityClass) if names_class else None
        checks = await self._seen(ADMISSION_CHECKS, AdmissionCheck)
        nodes = await self._seen(NODES, Node)
        namespaces = await seen(self._client, NAMESPACES, Namespace) or ()
        definitions = await self._trees(CRDS)
        with self._topic():
            unavailable_apis = await read_unavailable_apis(self._client, self.not_read)
        webhook_services = await read_webhook_services(self._client, [*mutating, *validating], self.not_read)
        missing_secret = await read_missing_secret(self._client, config, [*mutating, *validating], self.not_read)
        pulled, refusals = await self._events()
        certificates = [
            *[certificate async for certificate in self._connection_certificates()],
            *bundled_certificates("validatingwebhookconfiguration", validating),
            *bundled_certificates("mutatingwebhookconfiguration", mutating),
            *bundled_certificates("crd", definitions),
        ]
        now = self._clock.now()
        clocks = [clock for clock in (self._clock.facts, managers_clock(lease)) if clock is not None]
        return ClusterSnapshot(
            now=now,
            config=config,
            home=home,
            is_embedded=is_of_local_cluster(self._kubeconfig),
            workloads=workloads,
            pods=pods,
            jobs=jobs,
            local_queues=local_queues,
            cluster_queues=cluster_queues,
            cohorts=cohorts,
            flavors=flavors,
            priority_classes=None if classes is None else frozenset(each.metadata.name for each in classes),
            pod_classes=None if pod_classes is None else frozenset(each.metadata.name for each in pod_classes),
            checks=checks,
            nodes=None if nodes is None else [node_facts(node) for node in nodes],
            namespaces={each.metadata.name: each.metadata.labels for each in namespaces},
            image_pulls=list(image_pulls(pulled)),
            refusals=refusals,
            rules=resource_rules(config) if config is not None else COUNT_ALL,
            certificates=certificates,
            clocks=clocks,
            leases=[lease_facts(lease)] if lease is not None else [],
            deployment=deployment,
            is_absent=is_absent,
            webhook_services=webhook_services,
            deleted_namespaces=[n.metadata.name for n in namespaces if n.metadata.deletion_timestamp is not None],
            unavailable_apis=unavailable_apis,
            missing_secret=missing_secret,
            dead_conversions=dead_conversions(definitions, self._unconverted),
            left_configurations=await read_left_configurations(self._client, self._namespace, self.not_read),
            history=await self._history() if is_of_local_cluster(self._kubeconfig) else None,
        )

    def narrowed(self, namespace: str) -> ClusterReader:
        """Return a reader of this namespace, for a user who may not read all."""
        return ClusterReader(self._client, self._kubeconfig, self._context, self._clock, namespace, is_narrowed=True)

    @property
    def _own(self) -> list[str]:
        return [self._namespace] if self._namespace else []

    async def _events(self) -> tuple[list[Event], list[Event]]:
        """The Events about images that were pulled, and about refused writes and pods; none if the user may not list
        them.
        """
        with self._topic():
            pulled, *refused = [
                await list_permitted(self._client, EVENTS, Event, self._namespace, field_selector=f"reason={reason}")
                for reason in (PULLED, QUEUEING_REFUSED, CREATE_FAILED)
            ]
            if pulled is None or None in refused:
                self.not_read.append("events (forbidden)")
        return pulled or [], [event for events in refused for event in events or ()]

    async def _history(self) -> HistoryFacts | None:
        """The state of the history, by the metrics of `sluice up`; None if they have none."""
        with contextlib.suppress(OSError):
            answer = await self._client.transport.request(Request("GET", "/metrics", accept="text/plain"))
            return history_facts(answer.body.decode(errors="replace")) if answer.is_ok else None
        return None

    async def _seen(self, resource: Resource, type: type[O]) -> list[O] | None:
        """All objects; None if the user may not list them, their conversion fails, or an older Kueue lacks the kind."""
        read = seen if resource in OPTIONAL else list_permitted
        with self._topic():
            try:
                found = await read(self._client, resource, type, self._namespace if resource.namespaced else "")
            except ApiError as error:
                if not (failure := conversion_failure(error.message)):
                    raise
                self.not_read.append(f"{resource.plural} ({failure})")
                self._unconverted[str(resource)] = failure
                return None
            if found is None:
                self.not_read.append(f"{resource.plural} (forbidden{' or absent' if resource in OPTIONAL else ''})")
        return found

    @contextlib.contextmanager
    def _topic(self) -> Iterator[None]:
        """Count what is read in the block as a topic, unless the block adds to `not_read`."""
        before = len(self.not_read)
        yield
        self.topics_read += len(self.not_read) == before

    async def _lease(self, config: KueueConfig, home: str) -> Json | None:
        """The Lease of the managers; None if it does not exist, as in the cluster of `sluice up`, or they need none."""
        election = config.leader_election
        if not election.leader_elect:
            return None
        try:
            return await self._client.get(LEASES, election.resource_namespace or home, election.resource_name)
        except ApiError as error:
            if error.is_forbidden:
                self.not_read.append("the Lease of the managers (forbidden)")
            elif not error.is_not_found:
                raise
            return None

    # --- certificates ---

    async def _connection_certificates(self) -> AsyncIterator[CertificateFacts]:
        local = is_of_local_cluster(self._kubeconfig)
        renew = RENEW_LOCAL if local else f"renew it in {self._kubeconfig}"
        for field, pem in kubeconfigs.certificates(self._kubeconfig, self._context).items():
            if (until := latest_end(pem)) is not None:
                yield CertificateFacts(f"{field} of {self._kubeconfig}", until, renew)
        if (until := await self._server_certificate_end()) is not None:
            yield CertificateFacts("the API server", until, RENEW_LOCAL if local else "kubeadm certs renew apiserver")

    async def _trees(self, resource: Resource) -> list[Json]:
        """All objects of a kind with webhooks; none if the user may not list them, or the kind is not served."""
        with self._topic():
            try:
                return await self._client.list(resource)
            except ApiError as error:
                if not (error.is_forbidden or error.is_not_found):
                    raise
                if error.is_forbidden:
                    self.not_read.append(f"{resource.plural} (forbidden)")
        return []

    async def _server_certificate_end(self) -> datetime | None:
        """When the certificate that the API server presents ends; None without TLS, or through a proxy."""
        access = kubeconfigs.load(self._kubeconfig, self._context)
        url = urlsplit(access.server)
        if access.ssl is None or access.proxy is not None or url.hostname is None:
            return None
        name = access.server_hostname or url.hostname
        with contextlib.suppress(OSError):
            async with asyncio.timeout(CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(
                    url.hostname, url.port or 443, ssl=access.ssl, server_hostname=name
                )
            der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            return x509.load_der_x509_certificate(der).not_valid_after_utc if der else None
        return None


async def widest_reading(reader: ClusterReader, own: str) -> tuple[ClusterReader, ClusterSnapshot]:
    """Return the reader that sees more, the given one or that of namespace `own` (unless ""), and what it has read.

    All kinds are read in the same namespaces: a Workload whose Job may not be read would look like an orphan.
    """
    snapshot = await reader.read()
    if own and (snapshot.workloads is None or snapshot.jobs is None):
        narrowed = reader.narrowed(own)
        its = await narrowed.read()
        if narrowed.topics_read > reader.topics_read:
            return narrowed, its
    return reader, snapshot


def history_facts(metrics: str) -> HistoryFacts | None:
    """The state of the history in a text of metrics; None if no history is written."""
    values = dict(line.split(" ", 1) for line in metrics.splitlines() if line.startswith("sluice_history_"))
    if HISTORY_STALLED_SECONDS not in values:
        return None
    return HistoryFacts(float(values[HISTORY_STALLED_SECONDS]), int(float(values.get(HISTORY_QUEUED, 0))))


def bundled_certificates(kind: str, trees: Iterable[Json]) -> Iterator[CertificateFacts]:
    """Yield the caBundle of Sluice's and Kueue's webhooks, one of each object.

    A CRD is left out if another Service than Sluice's converts it: no manager renews its caBundle.
    """
    for tree in trees:
        own = own_services(tree)
        for config in _client_configs(tree):
            service = config.get("service") or {}
            key = Key(service.get("namespace", ""), service.get("name", ""))
            is_renewed = key in own or (kind == "crd" and key.name == CONVERSION_SERVICE)
            if config.get("caBundle") and is_renewed:
                if (until := latest_end(base64.b64decode(config["caBundle"]))) is not None:
                    command = RENEW_MANAGER.format(key.namespace)
                    yield CertificateFacts(f"{kind}/{tree['metadata']['name']}", until, command)
                break


def latest_end(pem: bytes) -> datetime | None:
    """When the last certificate of a bundle ends; None if it has none. The others are kept for a change of the CA."""
    try:
        return max(each.not_valid_after_utc for each in x509.load_pem_x509_certificates(pem))
    except ValueError:
        return None


def managers_clock(lease: Json | None) -> ClockFacts | None:
    """How far the leader's clock is ahead: the renewTime that it wrote, minus the API server's time of that write."""
    facts = lease_facts(lease) if lease is not None else None
    if lease is None or facts is None or facts.renewed is None or not facts.holder:
        return None
    stored = [
        datetime.fromisoformat(entry["time"])
        for entry in lease["metadata"].get("managedFields") or ()
        if entry.get("time") and "f:renewTime" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    if not stored:
        return None
    return ClockFacts(f"manager {facts.holder}", facts.renewed - max(stored), 2 * HEADER_RESOLUTION)


def _client_configs(tree: Json) -> Iterator[Json]:
    """The clientConfigs of a webhook configuration, or of the conversion of a CRD."""
    for hook in tree.get("webhooks") or ():
        yield hook.get("clientConfig") or {}
    conversion = ((tree.get("spec") or {}).get("conversion") or {}).get("webhook") or {}
    yield conversion.get("clientConfig") or {}
