"""`sluice manager`: runs the controllers against a Kubernetes cluster until SIGTERM.

The command installs nothing. If it cannot start, it prints the reason in one line and exits with code 3. Mistakes in
the objects of --cluster-objects are printed in a line each, with exit code 2.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import ssl
import sys
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queue_manager.api.webhook_table import PORT
from queue_manager.cli import init_process
from queue_manager.cli.connection import home_directory
from queue_manager.cli.exit_codes import EXIT_ERROR, EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.logging_options import settings_of
from queue_manager.cli.reload import Reloader
from queue_manager.configuration import ConfigurationError, KueueConfig, load_or_default
from queue_manager.configuration.addresses import Address
from queue_manager.configuration.process_sections import LeaderElection
from queue_manager.engine import file_descriptors, kubeconfig, log, tracing
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.kubeconfig import Access, KubeconfigError
from queue_manager.engine.process_tuning import event_loop, tune_garbage_collector
from queue_manager.engine.renewing_transport import ClusterTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.operator import kopf_process, preflight, probes, visibility_server
from queue_manager.operator.delegated_auth import DelegatedAuth
from queue_manager.operator.election import Election
from queue_manager.operator.leadership_terms import Controllers
from queue_manager.operator.metrics_access import CachedAuth, guarded
from queue_manager.operator.preflight import CannotStart
from queue_manager.operator.required_permissions import QUEUE
from queue_manager.operator.tls import server_context
from queue_manager.operator.watchdog import watch_event_loop
from queue_manager.operator.webhooks import webhook_startup
from queue_manager.operator.webhooks.webhook_startup import Webhooks

if TYPE_CHECKING:
    from queue_manager.local.cluster_objects import ClusterObjectServer

logger = logging.getLogger(__name__)


def run(args: argparse.Namespace) -> int:
    """Run the manager until SIGTERM. Raises CommandRefused with the reason if it cannot start or fails."""
    init_process.fork_as_init()  # as PID 1 of a container, the process ignores SIGTERM until a handler is installed
    log.configure(settings_of(args))
    tracing.configure("sluice-manager", os.environ)
    tune_garbage_collector()
    file_descriptors.raise_limit()
    try:
        config = read_config(args.config, args.namespace)
        with event_loop() as loop:
            loop.run(manage(args, config))
    except BrokenPipeError:  # the reader of the output has exited: `main` ends the command
        raise
    except CannotStart as error:
        return refuse(str(error), error)
    except CommandRefused as error:
        return refuse(str(error), error, error.code)
    except Exception as error:
        logger.exception("the manager failed")
        return refuse(f"failed with {type(error).__name__}: {error}", error)
    finally:
        tracing.close()
    return EXIT_OK


def refuse(text: str, error: Exception, code: int = EXIT_ERROR) -> int:
    """End the command with an error: as a line of JSON if the log is JSON, else as text like every command."""
    if not log.is_json():
        raise CommandRefused(text, code) from error
    logger.error("; ".join(text.splitlines()))
    return code


async def manage(args: argparse.Namespace, config: KueueConfig) -> None:
    """Run the preflight checks, then the controllers and servers until a signal."""
    objects = await cluster_objects(args, config)
    transport = connect(reader(args.kubeconfig, args.context))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(transport.close)
        election = candidate(transport, config.leader_election, args.lease)
        hooks = webhooks(args, config, transport)
        version = await _preflight(args, config, transport, election, hooks)
        asides: list[Callable[[], Coroutine[Any, Any, None]]] = [partial(watch_event_loop)]
        if objects is not None:
            client = RestClient(transport)
            await read_namespaces(objects, client, args.namespace)
            asides.append(partial(objects.follow_namespaces, client, args.namespace))
        controllers = Controllers(
            transport,
            config,
            args.controllers,
            election=election,
            namespaces=args.namespace,
            report=print_line,
            metrics=hooks.metrics if hooks is not None else None,
            stands_by=visibility_address(args, config) is not None,
            beside=objects.beside if objects is not None else None,
        )
        process = _Process(args, config, transport, election, hooks, controllers)
        urls = await process.serve(stack)
        process.print_start(version, urls)
        reloader = Reloader(
            args.config, config, process.reconfigure, lambda _, line: print_line(f"config: {line}"), args.namespace
        )
        reloader.listen(controllers.stop)
        asides.append(partial(announce, controllers))
        for aside in asides:
            stack.callback(asyncio.create_task(aside()).cancel)
        await kopf_process.run(controllers, transport, hooks)
    print_line("stopped")


async def _preflight(
    args: argparse.Namespace,
    config: KueueConfig,
    transport: ClusterTransport,
    election: Election | None,
    hooks: Webhooks | None,
) -> str:
    """Run the checks before the start; return the version of the API server. Raises CannotStart if one fails."""
    lease = election.namespace if election is not None else ""
    further = webhook_startup.needs(config, own_namespace(config, transport)) if hooks is not None else {}
    server, roles_only = transport.access.server, args.cluster_objects is not None
    return await preflight.check(
        transport, server, args.controllers, lease, args.namespace, further, roles_only=roles_only
    )


async def read_namespaces(objects: ClusterObjectServer, client: RestClient, names: Collection[str]) -> None:
    """Read the labels of the managed namespaces. Raises CannotStart if one does not exist or cannot be read."""
    try:
        await objects.read_namespaces(client, names)
    except (ApiError, OSError) as error:
        raise CannotStart(f"cannot read a namespace of --namespace: {error}") from error


async def cluster_objects(args: argparse.Namespace, config: KueueConfig) -> ClusterObjectServer | None:
    """The objects of --cluster-objects; None: those of the API server. Raises CommandRefused with all mistakes."""
    if args.cluster_objects is None:
        return None
    if not args.namespace:
        raise CommandRefused("--cluster-objects needs --namespace: a Role is in one", EXIT_NEVER)
    from queue_manager.cli.cluster_object_files import read_cluster_objects  # imports the embedded API server

    return await read_cluster_objects(args.cluster_objects, config)


@dataclass(frozen=True)
class _Process:
    """The parts of one manager. `hooks`: None without webhooks; `election`: None without leader election."""

    args: argparse.Namespace
    config: KueueConfig
    transport: ClusterTransport
    election: Election | None
    hooks: Webhooks | None
    controllers: Controllers

    async def serve(self, stack: AsyncExitStack) -> list[str]:
        """Serve probes, metrics, webhooks and the visibility API until the stack is closed; return their URLs."""
        config, hooks, client = self.config, self.hooks, RestClient(self.transport)
        answers = probes.routes(config, self.controllers, self._unready)
        served = probes.addresses(config, self.args.metrics_port)
        if self.args.cluster_objects is not None:
            served = probes.without_readers(served)
        urls = await serve_probes(stack, served, answers, client, partial(tls_context, config, hooks))
        if hooks is not None:
            await stack.enter_async_context(hooks)
            urls.append(f"{hooks.url} (webhooks)")
        visibility = visibility_address(self.args, config)
        if visibility is not None:
            urls.append(await serve_visibility(stack, visibility, config, self.controllers, client, hooks))
        return urls

    def _unready(self) -> str:
        return (self.hooks.unready() if self.hooks is not None else "") or self.controllers.unready()

    def reconfigure(self, config: KueueConfig) -> None:
        """Apply a new configuration whose changes need no restart."""
        self.controllers.reconfigure(config)
        if self.hooks is not None:
            self.hooks.reconfigure(config)

    def print_start(self, version: str, urls: list[str]) -> None:
        """Print the URLs of the servers, and the parts that are off without having been switched off."""
        args = self.args
        where = f", only of {', '.join(args.namespace)}" if args.namespace else ""
        print_line(f"{', '.join(args.controllers)} on {self.transport.access.server} ({version}){where}")
        expected = not args.no_webhooks
        if self.election is None and self.config.leader_election.leader_elect:
            print_line(
                "leader election is off (not in a pod, no leaderElection.resourceNamespace): run only one manager"
            )
        if args.cluster_objects is not None:
            print_line(f"kinds without a namespace are those in {args.cluster_objects}; no webhooks, no visibility API")
            expected = False
        if self.hooks is None and expected and (args.webhook_port is not None or args.metrics_port is None):
            print_line("webhooks are off (not in a pod, no leaderElection.resourceNamespace, or without the queue)")
        for url in urls:
            print_line(f"serving {url}")


def webhooks(args: argparse.Namespace, config: KueueConfig, transport: ClusterTransport) -> Webhooks | None:
    """Return the admission webhooks, or None if this process serves none: without the queue's controllers, with
    --no-webhooks, without a namespace, or with --cluster-objects (a manager without cluster-wide rights cannot write
    webhook configurations).

    With --metrics-port, which puts all servers on loopback, they are served only if --webhook-port says where.
    """
    namespace = own_namespace(config, transport)
    if QUEUE not in args.controllers or args.no_webhooks or args.cluster_objects is not None or not namespace:
        return None
    if args.webhook_port is not None:
        address = Address("127.0.0.1", args.webhook_port)
    elif args.metrics_port is not None:
        return None
    else:
        address = Address(config.webhook.host or None, config.webhook.port or PORT)
    return Webhooks(transport, config, namespace, address, args.namespace)


def own_namespace(config: KueueConfig, transport: ClusterTransport) -> str:
    """The namespace of the manager's pod, else that of its Lease; "" if neither is known."""
    return transport.access.namespace or config.leader_election.resource_namespace


async def serve_probes(
    stack: AsyncExitStack,
    served: Mapping[Address, list[str]],
    answers: Mapping[str, dict[str, probes.Answer]],
    client: RestClient,
    context: Callable[[], ssl.SSLContext],
) -> list[str]:
    """Serve probes and metrics; metrics that other machines can reach over TLS, to users who may read them."""
    address = probes.over_tls(served)
    if address is None:
        return await probes.serve(stack, served, answers)
    auth = CachedAuth(DelegatedAuth(client, None), asyncio.get_running_loop().time)
    metrics = {path: guarded(answer, auth) for path, answer in answers["metrics"].items()}
    contexts = {address: context()}
    return await probes.serve(stack, served, {**answers, "metrics": metrics}, contexts)


def tls_context(config: KueueConfig, hooks: Webhooks | None) -> ssl.SSLContext:
    """TLS with the certificate of the webhooks, or without them with a new one."""
    certificate = hooks.certificate if hooks is not None else visibility_server.new_certificate(SystemClock())
    context = server_context(config.tls)
    certificate.attach(context)
    return context


def visibility_address(args: argparse.Namespace, config: KueueConfig) -> Address | None:
    """Where the visibility API is served as configured; None: nowhere, as with --cluster-objects, because it would
    have to ask the API server who makes a request.

    With --metrics-port, which puts all servers on loopback, it has a port of its own only if --visibility-port says so.
    """
    server = config.visibility_server
    if QUEUE not in args.controllers or args.cluster_objects is not None:
        return None
    if args.visibility_port is not None:
        return Address("127.0.0.1", args.visibility_port)
    if server is None or args.metrics_port is not None:
        return None
    return Address(server.bind_address or None, server.bind_port)


async def serve_visibility(
    stack: AsyncExitStack,
    address: Address,
    config: KueueConfig,
    controllers: Controllers,
    client: RestClient,
    hooks: Webhooks | None,
) -> str:
    """Serve the visibility API; returns its URL. Raises CannotStart if its port is taken."""
    try:
        context = tls_context(config, hooks)
        return await visibility_server.serve(stack, address, client, context, controllers.visibility)
    except OSError as error:
        where = f"{address.host or ''}:{address.port}"
        raise CannotStart(f"cannot serve the visibility API on {where}: {error.strerror or error}") from error


def candidate(transport: ClusterTransport, settings: LeaderElection, lease: str | None = None) -> Election | None:
    """Return a candidate for the Lease if leader election is enabled and the namespace of the Lease is known.

    `lease`: the name of the Lease, if not that of the settings. Managers that run different controllers need one each.
    """
    if not settings.leader_elect:
        return None
    if lease:
        settings = settings.model_copy(update={"resource_name": lease})
    namespace = settings.resource_namespace or transport.access.namespace
    return Election(transport, settings, namespace, report=print_line) if namespace else None


async def announce(controllers: Controllers) -> None:
    """Print `ready` once the controllers run, as the leader."""
    await controllers.ready.wait()
    print_line("ready")


def connect(read: Callable[[], Access]) -> ClusterTransport:
    """Return the connection to the API server. Raises CannotStart if the kubeconfig cannot be used."""
    try:
        return ClusterTransport(read)
    except OSError as error:
        raise CannotStart(f"{error.filename or 'kubeconfig'}: {error.strerror or error}") from error
    except (KubeconfigError, ValueError) as error:
        raise CannotStart(" ".join(str(error).split())) from error


def reader(path: str | None, context: str | None) -> Callable[[], Access]:
    """Return a function that reads server and credentials: the given kubeconfig, else in-cluster, else kubectl's."""
    if path is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return kubeconfig.service_account
    files = [path] if path else (os.environ.get("KUBECONFIG") or "").split(os.pathsep)
    candidates = [Path(file) for file in files if file] or [home_directory() / ".kube" / "config"]
    chosen = next((file for file in candidates if file.is_file()), candidates[0])
    return lambda: kubeconfig.load(chosen, context)


def read_config(path: str | None, namespaces: Collection[str] = ()) -> KueueConfig:
    """Return the configuration in a file, or the defaults. Raises CommandRefused with all errors of the file.

    `namespaces`: those of --namespace, which are managed by default even if the manager runs in one of them.
    """
    try:
        return load_or_default(
            path, lambda field: logger.warning("a setting has no effect", extra={"setting": field}), namespaces
        )
    except ConfigurationError as error:
        raise CommandRefused(str(error), EXIT_NEVER) from error


def print_line(line: str) -> None:
    """Announce a step on stdout; in the log if that is JSON, because the log of a container has both."""
    if log.is_json():
        logger.info(line)
        return
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
