"""The child process of `Cluster`: runs the embedded cluster until its standard input ends.

The input ends when the tests stop the cluster, and also when their process is killed, so that no cluster, pod or
temporary directory outlives the tests.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from queue_manager.configuration import ConfigurationError, KueueConfig, loads
from queue_manager.configuration.published_form import published_data
from queue_manager.engine import file_descriptors, log
from queue_manager.engine.process_tuning import event_loop, tune_garbage_collector
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.local.agent.cgroups import delegated
from queue_manager.local.local_cluster import ClusterOptions, LocalCluster
from queue_manager.local.storage.journal import DataDirectoryInUse
from queue_manager.local.storage.store import JournalUnusable
from queue_manager.operator.config_publication import ConfigPublication
from queue_manager.testing.protocol import Failed, Ready, StartOrder, decode_order

EXPECTED = (ApiError, ConfigurationError, DataDirectoryInUse, JournalUnusable, OSError, ValueError)
PREFIX = "sluice-test-"  # of temporary data directories


def main() -> None:
    """Read the order, run the cluster, answer once on the standard output."""
    order = decode_order(sys.stdin.buffer.readline())
    log.configure(log.LogSettings("text", log.LEVELS["warning"], {}))
    tune_garbage_collector()
    file_descriptors.raise_limit()
    try:
        with data_directory(order) as folder, event_loop() as loop:
            loop.run(serve(order, folder))
    except EXPECTED as error:
        answer(Failed(str(error) or type(error).__name__))


@contextmanager
def data_directory(order: StartOrder) -> Iterator[Path]:
    """The directory of the order, or a temporary one that is removed afterwards."""
    if order.data_dir is not None:
        yield Path(order.data_dir)
        return
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


async def serve(order: StartOrder, folder: Path) -> None:
    """Run the cluster until the input ends."""
    options = ClusterOptions(
        data_dir=folder,
        nodes=order.nodes,
        cpu=order.cpu,
        memory=order.memory,
        first_queue=order.first_queue,
        stop_grace_seconds=order.grace_seconds,
    )
    config = loads(order.config) if order.config else KueueConfig()
    ended = input_end()
    async with LocalCluster(options, config, cgroups=delegated()) as cluster:
        await ConfigPublication(cluster.client, (), published_data(config, has_other_users=False)).write()
        answer(Ready(cluster.url, str(cluster.kubeconfig)))
        await ended.wait()


def input_end() -> asyncio.Event:
    """An event that is set at the end of the standard input."""
    ended, loop, descriptor = asyncio.Event(), asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            ended.set()

    loop.add_reader(descriptor, read)
    return ended


def answer(message: Ready | Failed) -> None:
    """Write the answer, unless its reader is gone."""
    try:
        sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
