from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from queue_manager.engine.clock import SystemClock
from queue_manager.local.controllers.garbage_collector import GarbageCollector
from queue_manager.local.controllers.namespace_deletion import NamespaceController
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.kubeconfig_file import write_kubeconfig
from queue_manager.local.server import http_server
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.storage.store import Store
from tests.conftest import kubectl
from tests.local.tls import tls


class Run(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The words of a printed table, without its header."""
        return [line.split() for line in self.out.splitlines()[1:]]

    @property
    def tree(self) -> Any:
        return json.loads(self.out)


class Kubectl:
    """Runs kubectl against the server under test, as a user would."""

    def __init__(self, kubeconfig: Path) -> None:
        self._environment = os.environ | {
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(kubeconfig.parent),
            "NO_COLOR": "1",
        }

    async def start(self, *arguments: str, stdin: bool = False, **environment: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            kubectl() or "kubectl",
            *arguments,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment | environment,
        )

    async def try_(self, *arguments: str, stdin: str = "", **environment: str) -> Run:
        """Run kubectl; any exit code is accepted."""
        process = await self.start(*arguments, stdin=bool(stdin), **environment)
        out, err = await asyncio.wait_for(process.communicate(stdin.encode() if stdin else None), 60)
        return Run(process.returncode or 0, out.decode(), err.decode())

    async def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> Run:
        """Raises AssertionError if kubectl does not succeed."""
        run = await self.try_(*arguments, stdin=stdin, **environment)
        assert run.code == 0, (arguments, run)
        return run


@pytest.fixture
async def k(tmp_path: Path) -> AsyncGenerator[Kubectl, None]:
    """kubectl with an API server of all kinds, its garbage collector and its namespace controller."""
    clock = SystemClock()
    server = ApiServer(Store(clock, random.Random(7)), KindRegistry.builtin(), clock)
    listening = await http_server.serve(server, tls().server, token="secret")
    write_kubeconfig(tmp_path / "kubeconfig", listening.url, "secret", tls().authority)
    controllers = [asyncio.ensure_future(c.run()) for c in (GarbageCollector(server), NamespaceController(server))]
    try:
        yield Kubectl(tmp_path / "kubeconfig")
    finally:
        for task in controllers:
            task.cancel()
        await asyncio.gather(*controllers, return_exceptions=True)
        await listening.close()
