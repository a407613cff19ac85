"""`Cluster`: starts a cluster as a child process and stops it.

This module imports neither the cluster nor the official client until they are needed: the first `import` of a test
suite takes a few milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from job_controller import quantities
from queue_manager.durations import Duration, argument_seconds
from queue_manager.testing.protocol import Failed, Ready, StartOrder, decode_answer

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from queue_manager.client import Client
    from queue_manager.configuration import KueueConfig

SERVER = "queue_manager.testing.server_process"
CONFIG_HEADER = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
KILL_AFTER_SECONDS = 60.0  # the cluster stops within a few seconds; a killed one would leave its pods behind
LOG_BYTES = 4000  # of the end of the log that an error shows


class ClusterFailed(RuntimeError):
    """The cluster did not start. The text says why, with the end of its log."""


class Cluster:
    """A cluster for tests: `with Cluster() as cluster:`, or `async with`, or `start` and `stop`.

    Any number of them run side by side, in one process and in many: each has a free port and a directory of its own.
    A cluster can be started again after it has stopped; it is empty then, unless it has a `data_dir`.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        cpu: str = "4",
        memory: str = "8Gi",
        config: KueueConfig | Mapping[str, Any] | str | Path | None = None,
        first_queue: bool = True,
        data_dir: Path | None = None,
        grace_seconds: Duration = 1.0,
        start_seconds: Duration = 60.0,
    ) -> None:
        """`cpu` and `memory` are the capacity of each node, as Kubernetes quantities. They are what the queue counts
        with; pods may use all of the machine.

        `config`: a KueueConfig, a mapping with its fields, its YAML text, or the path of its file.
        `first_queue`: create the LocalQueue `default/user-queue` with the quota of all nodes.
        `data_dir`: where the cluster keeps its objects; without it they are in a temporary directory.
        `grace_seconds`: how long `stop` waits for pods that ignore SIGTERM. `start_seconds`: how long `start` waits.
        Both also take a text such as "1m30s", or a timedelta. Raises ValueError for a malformed quantity or duration,
        and OSError if the file of `config` cannot be read.
        """
        for name, amount in (("cpu", cpu), ("memory", memory)):
            _check_quantity(name, amount)
        self._order = StartOrder(
            nodes=nodes,
            cpu=cpu,
            memory=memory,
            config=config_text(config),
            first_queue=first_queue,
            data_dir=None if data_dir is None else str(data_dir.absolute()),
            grace_seconds=argument_seconds("grace_seconds", grace_seconds),
        )
        self._start_seconds = argument_seconds("start_seconds", start_seconds)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._ready: Ready | None = None
        self._api_client: ApiClient | None = None

    def __repr__(self) -> str:
        """The name of its directory and its address, or that it does not run."""
        if self._ready is None:
            return "<Cluster that does not run>"
        return f"<Cluster {self.kubeconfig.parent.name} at {self.url}>"

    # --- life ---

    def start(self) -> Self:
        """Return when the cluster serves requests. Raises ClusterFailed, and RuntimeError if it runs already."""
        if self._process is not None:
            raise RuntimeError("the cluster runs already")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - read after the process has failed
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", SERVER],  # -P: no module of the working directory replaces one of ours
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C reaches the tests alone; they stop the cluster
        )
        try:
            self._ready = self._await_answer(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all pods and the cluster. A cluster that does not run is left alone."""
        process, self._process, self._ready = self._process, None, None
        if self._api_client is not None:
            self._api_client.close()
            self._api_client = None
        if process is not None:
            _end(process, KILL_AFTER_SECONDS + self._order.grace_seconds)
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # --- use ---

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of its administrator, for KUBECONFIG. Raises RuntimeError unless the cluster runs."""
        return Path(self._running().kubeconfig)

    @property
    def url(self) -> str:
        """The address of the API server, `https://127.0.0.1:PORT`. Raises RuntimeError unless the cluster runs."""
        return self._running().url

    @property
    def api_client(self) -> ApiClient:
        """The official client, connected as administrator; `stop` closes it. The same object at each call."""
        if self._api_client is None:
            from kubernetes.config import new_client_from_config

            self._api_client = new_client_from_config(config_file=str(self.kubeconfig))
        return self._api_client

    @property
    def client(self) -> Client:
        """Sluice's client on `api_client`, for the namespace `default`."""
        from queue_manager.cli.login_name import login_name
        from queue_manager.client import Client

        return Client(self.api_client, user=login_name())

    @property
    def log(self) -> str:
        """What the cluster has logged: warnings and errors. Raises RuntimeError unless the cluster runs."""
        self._running()
        return self._end_of_log(None)

    # --- the process ---

    def _running(self) -> Ready:
        if self._ready is None:
            raise RuntimeError("the cluster does not run: use `with Cluster() as cluster:`, or call start()")
        return self._ready

    def _await_answer(self, process: subprocess.Popen[bytes]) -> Ready:
        assert process.stdin is not None
        deadline = time.monotonic() + self._start_seconds
        try:
            process.stdin.write(self._order.encode())
            process.stdin.flush()
        except BrokenPipeError:  # it has ended; the log says why
            pass
        line = _read_line(process, deadline)
        if not line:
            ended = process.poll() is not None or time.monotonic() < deadline
            what = "its process ended" if ended else f"no answer within {self._start_seconds:g} s"
            raise ClusterFailed(f"the cluster did not start: {what}{self._log_excerpt()}")
        match decode_answer(line):
            case Failed(why):
                raise ClusterFailed(f"the cluster did not start: {why}{self._log_excerpt()}")
            case Ready() as ready:
                return ready

    def _log_excerpt(self) -> str:
        text = self._end_of_log(LOG_BYTES)
        return f"\nthe end of its log:\n{text}" if text else ""

    def _end_of_log(self, size: int | None) -> str:
        if self._log is None:
            return ""
        descriptor = self._log.fileno()
        length = os.fstat(descriptor).st_size
        start = 0 if size is None else max(0, length - size)
        # Not by `seek`: the cluster writes at the position of the same open file.
        return os.pread(descriptor, length - start, start).decode("utf-8", "replace").strip()


def _check_quantity(name: str, text: str) -> None:
    try:
        quantities.parse(text, name)
    except ValueError as error:
        raise ValueError(f"{name}: {text!r}: {error}") from error


def config_text(config: KueueConfig | Mapping[str, Any] | str | Path | None) -> str:
    """The configuration as the text of its file. Raises OSError if its file cannot be read."""
    match config:
        case None:
            return ""
        case str():
            return config
        case Path():
            return config.read_text(encoding="utf-8")
        case Mapping():
            return json.dumps({**CONFIG_HEADER, **config})
        case _:
            from queue_manager.configuration.config_as_yaml import as_yaml

            return as_yaml(config)


def _read_line(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """The first line of the output; b"" if the process has ended, or has written none at the deadline."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return process.stdout.readline() if selector.select(max(0.0, deadline - time.monotonic())) else b""


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Close the input of the process, which ends the cluster, and wait for it; kill it after `seconds`."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
