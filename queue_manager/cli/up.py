"""`sluice up`: runs the embedded cluster until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import os
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from shlex import quote
from textwrap import shorten

from queue_manager import assets
from queue_manager.cli import detached, init_process, standard_streams, stop_report
from queue_manager.cli.arguments.local_commands import DEFAULT_NODES
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.logging_options import settings_of
from queue_manager.cli.login_name import login_name
from queue_manager.cli.output import duration
from queue_manager.cli.reload import Reloader
from queue_manager.cli.up_address import directory, how_to_reach
from queue_manager.configuration import ConfigurationError, KueueConfig, load_or_default
from queue_manager.configuration.published_form import published_data
from queue_manager.engine import file_descriptors, log, tracing
from queue_manager.engine.process_tuning import event_loop, stop_on_signals, tune_garbage_collector
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.service_notification import READY, STOPPING, notify, take_starter
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.local.agent.cgroups import Cgroups, delegated
from queue_manager.local.agent.escaped_processes import leftover_processes
from queue_manager.local.local_cluster import ClusterOptions, LocalCluster
from queue_manager.local.storage.data_directory import PODS
from queue_manager.local.storage.journal import DataDirectoryInUse
from queue_manager.local.storage.store import JournalUnusable
from queue_manager.operator import probes
from queue_manager.operator.config_publication import ConfigPublication
from queue_manager.operator.preflight import CannotStart

MAX_COMMAND = 60  # characters of a command line that messages show
ROOT = "every Job can change anything on this machine; start sluice as an ordinary user"


def run(args: argparse.Namespace) -> int:
    """Run the embedded cluster until a signal stops it, or start it with --detach; return the exit code."""
    if args.wait and not args.detach:
        raise CommandRefused(
            "--wait needs --detach: in the foreground, `sluice up` prints when it is ready", EXIT_NEVER
        )
    data_dir = directory(args.data_dir)
    config = read_config(args.config)
    if args.detach:
        return detach(args, data_dir.absolute())
    options = ClusterOptions(
        data_dir=data_dir.absolute(),
        nodes=args.nodes or DEFAULT_NODES,
        cpu=args.cpu or "",
        memory=args.memory or "",
        port=args.port or 0,
        leave_running=args.leave_running,
    )
    init_process.fork_as_init()
    log.configure(settings_of(args))
    tracing.configure("sluice-up", os.environ)
    tune_garbage_collector()
    file_descriptors.raise_limit()
    try:
        with event_loop() as loop:
            return loop.run(up(options, config, args.config))
    except BrokenPipeError:  # the reader of the output has exited: `main` ends the command
        raise
    except DataDirectoryInUse as error:
        without_effect = detached.options_without_effect(args, error.pid)
        advice = detached.how_to_start_another(error.path)
        raise CommandRefused(f"{error}{how_to_reach(error.path)}{without_effect}; {advice}") from error
    except JournalUnusable as error:
        raise CommandRefused(f"{error}; choose another --data-dir, or move this one") from error
    except CannotStart as error:
        raise CommandRefused(str(error)) from error
    except ApiError as error:
        raise CommandRefused(f"cannot start: {error}") from error
    except ValueError as error:
        raise CommandRefused(str(error), EXIT_NEVER) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandRefused(f"port {options.port} of this machine is taken; choose another --port") from error
        where = f"{error.filename}: " if error.filename else ""
        raise CommandRefused(f"cannot start: {where}{error.strerror or error}") from error
    finally:
        tracing.close()


def detach(args: argparse.Namespace, data_dir: Path) -> int:
    """Start the cluster in the background; return the exit code."""
    try:
        return detached.start(args, data_dir)
    except JournalUnusable as error:
        raise CommandRefused(f"{error}; choose another --data-dir") from error


def user() -> str:
    """Return the name of the user, or the UID if it has no name, as may be in a container."""
    return login_name() or str(os.getuid())


def read_config(path: str | None) -> KueueConfig:
    """Return the configuration in a file, or the defaults. Raises CommandRefused with all errors and their lines."""
    try:
        return load_or_default(path, lambda field: print_step("!", "ignored", field))
    except ConfigurationError as error:
        raise CommandRefused(str(error), EXIT_NEVER) from error


async def up(options: ClusterOptions, config: KueueConfig, file: str | None = None) -> int:
    """Run until a stop signal. A second signal ends the process immediately; SIGHUP reloads the configuration."""
    began = time.monotonic()
    starter = take_starter(os.environ)
    stop = asyncio.Event()
    stop_on_signals(stop.set)
    print_step("!", "no sandbox", f"commands of Jobs run as plain processes of user {user()}")
    if os.geteuid() == 0:
        print_step("!", "root", ROOT)
    cgroups = delegated()
    print_step("!", "limits", enforcement(cgroups))

    async def serve(runtime: Runtime, stack: AsyncExitStack) -> None:
        routes = probes.routes(config, runtime.metrics, lambda: "stopping" if stop.is_set() else runtime.unready())
        for url in await probes.serve(stack, probes.explicit_addresses(config), routes):
            print_step("\u2714", "serving", url)

    report = partial(print_step, "\u2714")
    async with LocalCluster(options, config, report, serve, cgroups) as cluster:
        publication = ConfigPublication(cluster.client, (), published_data(config, has_other_users=False))
        await publication.write()
        following = asyncio.create_task(publication.run())

        def reconfigure(new: KueueConfig) -> None:
            cluster.reconfigure(new)
            publication.put(published_data(new, has_other_users=False))

        reloader = Reloader(
            file, config, reconfigure, lambda done, line: print_step("✔" if done else "!", "config", line)
        )
        reloader.listen(stop.set)
        print_leftovers(options.data_dir)
        print_next_steps(cluster, time.monotonic() - began, file, in_background=bool(starter))
        stop_report.forget(options.data_dir)
        notify(READY, starter)
        await stop.wait()
        notify(STOPPING, starter)
        following.cancel()
        running = cluster.running_counts()
        effect = (stop_report.departure if options.leave_running else stop_report.interruption)(running)
        standard_streams.write(f"\nstopping{effect} ...")
    again = detached.up_command(options.data_dir.absolute())
    stop_report.record(options.data_dir, stop_report.stopped_jobs(running, left=options.leave_running, up=again))
    standard_streams.write(f"stopped; `{again}` continues from here")
    return EXIT_OK


def enforcement(cgroups: Cgroups | None) -> str:
    """Return which resource limits of containers this machine enforces."""
    if cgroups is not None and cgroups.limits_cpu:
        return "limits.memory and limits.cpu are enforced by cgroups"
    if cgroups is not None:
        return "limits.memory is enforced by cgroups, limits.cpu is not (no cpu controller is delegated to Sluice)"
    return "limits.memory is checked once a second, limits.cpu is not enforced (no cgroup is delegated to Sluice)"


def print_step(mark: str, step: str, detail: str) -> None:
    """Print one line of the start-up, immediately."""
    head = f"{mark} {step:12} "
    standard_streams.write(f"{head}{detail}", indent=len(head))


def print_leftovers(data_dir: Path) -> None:
    """Report processes of pods whose data directory was removed while they ran."""
    for folder, found in leftover_processes(data_dir / PODS).items():
        processes = "1 process" if len(found) == 1 else f"{len(found)} processes"
        oldest = f"the oldest has run for {duration(found[0].age())}: {shorten(found[0].command, MAX_COMMAND)}"
        numbers = " ".join(str(process.pid) for process in sorted(found, key=lambda process: process.pid))
        what = f"{processes} of a cluster whose folder {folder} is gone"
        print_step("!", "left behind", f"{what}, {oldest}; to end: kill -9 {numbers}")


def print_next_steps(cluster: LocalCluster, seconds: float, config: str | None, *, in_background: bool = False) -> None:
    """Print how long the start took, the commands to try next, and how to apply a changed configuration."""
    sample = assets.samples() / "hello.yaml"
    with contextlib.suppress(ValueError):
        sample = sample if in_background else sample.relative_to(Path.cwd())
    reload = f"To apply a changed {config}: kill -HUP {os.getpid()}\n" if config else ""
    stop = f"`{detached.down_command(cluster.kubeconfig.parent)}`" if in_background else "Ctrl-C"
    standard_streams.write(
        f"\nReady in {seconds:.1f} s. {'To use it' if in_background else 'In another terminal'}:\n"
        f"  export KUBECONFIG={quote(str(cluster.kubeconfig))}\n"
        f"  sluice submit -f {quote(str(sample))}\n"
        f"  sluice ps\n"
        f"{reload}"
        f"{stop} stops the cluster; its data stays."
    )
