"""Our Job controller as a process: python -m tests.control_plane.jobs.our_controller KUBECONFIG PORT OPTIONS

OPTIONS are those of JobControllerOptions, as JSON. /healthz answers once the caches are filled, /metrics serves the
metrics. The process ends when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from random import Random

from aiohttp import web

from job_controller.options import JobControllerOptions
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.process_tuning import event_loop, tune_garbage_collector
from queue_manager.engine.runtime import Runtime
from queue_manager.hosting.job_controller_port import attach_job_controller


async def main(kubeconfig: str, port: int, options: JobControllerOptions) -> None:
    tune_garbage_collector()
    runtime = Runtime(HttpTransport.from_kubeconfig(kubeconfig), SystemClock(), Random(1))
    attach_job_controller(runtime, options)
    async with runtime:

        async def healthz(_: web.Request) -> web.Response:
            return web.Response(text="ok")

        async def metrics(_: web.Request) -> web.Response:
            return web.Response(text=runtime.metrics.exposition())

        app = web.Application()
        app.add_routes([web.get("/healthz", healthz), web.get("/metrics", metrics)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()
        await runner.cleanup()


def run() -> None:
    kubeconfig, port, options = sys.argv[1:]
    with event_loop() as loop:
        loop.run(main(kubeconfig, int(port), JobControllerOptions(**json.loads(options))))


if __name__ == "__main__":
    run()
