"""`sluice manager`: runs the controllers against a Kubernetes cluster until SIGTERM.

The command installs nothing. If it cannot start, it prints the reason in one line and exits with code 3.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from queue_manager.cli import init_process
from queue_manager.cli.connection import home_directory
from queue_manager.cli.exits import EXIT_OK, CommandRefused
from queue_manager.cli.reload import Reloader
from queue_manager.configuration import ConfigurationError, KueueConfig, load_or_default
from queue_manager.configuration.addresses import Address
from queue_manager.configuration.process import LeaderElection
from queue_manager.engine import descriptors, kubeconfig, log
from queue_manager.engine.client import Client
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.kubeconfig import Access, KubeconfigError
from queue_manager.engine.tuning import event_loop, tune_garbage_collector
from queue_manager.operator import preflight, probes, shell, visibility_server
from queue_manager.operator.controllers import Controllers
from queue_manager.operator.election import Election
from queue_manager.operator.permissions import QUEUE
from queue_manager.operator.preflight import CannotStart
from queue_manager.operator.renewing_transport import ClusterTransport

logger = logging.getLogger(__name__)


def run(args: argparse.Namespace) -> int:
    init_process.fork_as_init()  # as PID 1 of a container, the process ignores SIGTERM until a handler is installed
    log.configure(logging.INFO)
    tune_garbage_collector()
    descriptors.raise_limit()
    try:
        config = read_config(args.config)
        with event_loop() as loop:
            loop.run(manage(args, config))
    except BrokenPipeError:  # the reader of the output has exited: `main` ends the command
        raise
    except CannotStart as error:
        raise CommandRefused(str(error)) from error
    except Exception as error:
        logger.exception("the manager failed")
        raise CommandRefused(f"failed with {type(error).__name__}: {error}") from error
    return EXIT_OK


async def manage(args: argparse.Namespace, config: KueueConfig) -> None:
    """Run the preflight checks, then the controllers and probes until a signal."""
    transport = connect(reader(args.kubeconfig, args.context))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(transport.close)
        election = candidate(transport, config.leader_election)
        lease = election.namespace if election is not None else ""
        version = await preflight.check(transport, transport.access.server, args.controllers, lease)
        controllers = Controllers(transport, config, args.controllers, election=election, report=print_line)
        answers = probes.routes(config, controllers, controllers.unready)
        urls = await probes.serve(stack, probes.addresses(config, args.metrics_port), answers)
        if QUEUE in args.controllers:
            urls += await serve_visibility(stack, args, config, controllers, Client(transport))
        print_line(f"{', '.join(args.controllers)} on {transport.access.server} ({version})")
        if election is None and config.leader_election.leader_elect:
            print_line(
                "leader election is off (not in a pod, no leaderElection.resourceNamespace): run only one manager"
            )
        for url in urls:
            print_line(f"serving {url}")
        reloader = Reloader(
            args.config, config, controllers.reconfigure, lambda done, line: print_line(f"config: {line}")
        )
        reloader.listen(controllers.stop)
        announcing = asyncio.create_task(announce(controllers))
        stack.callback(announcing.cancel)
        await shell.run(controllers, transport)
    print_line("stopped")


async def serve_visibility(
    stack: AsyncExitStack, args: argparse.Namespace, config: KueueConfig, controllers: Controllers, client: Client
) -> list[str]:
    """Serve the visibility API as configured. Raises CannotStart if its port is taken.

    With --metrics-port, which puts all servers on loopback, it has a port of its own only if --visibility-port says so.
    """
    server = config.visibility_server
    if args.visibility_port is not None:
        address = Address("127.0.0.1", args.visibility_port)
    elif server is None or args.metrics_port is not None:
        return []
    else:
        address = Address(server.bind_address or None, server.bind_port)
    try:
        url = await visibility_server.serve(stack, address, client, SystemClock(), controllers.pending_summaries)
    except OSError as error:
        where = f"{address.host or ''}:{address.port}"
        raise CannotStart(f"cannot serve the visibility API on {where}: {error.strerror or error}") from error
    return [url]


def candidate(transport: ClusterTransport, settings: LeaderElection) -> Election | None:
    """Return a candidate for the Lease if leader election is enabled and the namespace of the Lease is known."""
    if not settings.leader_elect:
        return None
    namespace = settings.resource_namespace or transport.access.namespace
    return Election(transport, settings, namespace, report=print_line) if namespace else None


async def announce(controllers: Controllers) -> None:
    await controllers.ready.wait()
    print_line("ready")


def connect(read: Callable[[], Access]) -> ClusterTransport:
    try:
        return ClusterTransport(read)
    except OSError as error:
        raise CannotStart(f"{error.filename or 'kubeconfig'}: {error.strerror or error}") from error
    except (KubeconfigError, ValueError) as error:
        raise CannotStart(" ".join(str(error).split())) from error


def reader(path: str | None, context: str | None) -> Callable[[], Access]:
    """Return a function that reads the access: the given kubeconfig, else in-cluster, else kubectl's default."""
    if path is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return kubeconfig.service_account
    files = [path] if path else (os.environ.get("KUBECONFIG") or "").split(os.pathsep)
    candidates = [Path(file) for file in files if file] or [home_directory() / ".kube" / "config"]
    chosen = next((file for file in candidates if file.is_file()), candidates[0])
    return lambda: kubeconfig.load(chosen, context)


def read_config(path: str | None) -> KueueConfig:
    """Return the configuration in a file, or the defaults. Raises CannotStart with all errors of the file."""
    try:
        return load_or_default(path, lambda field: logger.warning("a setting has no effect", extra={"setting": field}))
    except ConfigurationError as error:
        raise CannotStart("; ".join(line.strip() for line in str(error).splitlines())) from error


def print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
