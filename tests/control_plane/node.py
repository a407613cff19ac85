"""Nodes of this machine for any API server: python -m tests.control_plane.node KUBECONFIG FOLDER CPU MEMORY

Placement and node agent as ordinary clients, as in `sluice up`. Prints "ready"; when its standard input is closed, it
ends its pods and exits.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.runtime import Runtime
from queue_manager.local.agent.agent import Agent
from queue_manager.local.node_registration import node_specs, register
from queue_manager.local.placement import Placement


async def main(kubeconfig: str, folder: str, cpu: str, memory: str) -> None:
    clock = SystemClock()
    transport = HttpTransport.from_kubeconfig(kubeconfig)
    runtime = Runtime(transport, clock, random.SystemRandom())
    specs = node_specs(1, cpu, memory)
    await register(runtime.client, specs, clock.now())
    Placement(runtime)
    agent = Agent(runtime, Path(folder), [spec.host for spec in specs])
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with runtime:
        print("ready", flush=True)
        await reader.read()
        await agent.shutdown(grace=1.0)
    await transport.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
