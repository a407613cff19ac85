"""Runs work that is too slow for the event loop in a separate process, one request at a time.

The process (`python -m queue_manager.local.worker_process`) is started on demand and ended after IDLE_SECONDS without
work. It reads one request per line from its standard input and writes one answer per line to its standard output, both
JSON. It ends at the end of its input, and so also when `sluice up` is killed. Every request may use one second of
processor time. The process has no state: it calls functions of JSON values, listed in `_functions`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import orjson

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.local.schema.cpu_time_limits import MAX_SECONDS, TimeLimitExceeded, Work, run_with_limit
from queue_manager.local.status_errors import StatusError, internal

log = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
ANSWER_SECONDS = 15.0  # wall-clock time for start and work, generous for a busy machine
MAX_WAITING = 8  # requests
MAX_LINE = 1 << 27  # bytes


class WorkerProcess:
    """The client side of the process, for the API server. `close` ends the process."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._idle_timer: asyncio.TimerHandle | None = None

    async def run(self, work: Work) -> list[Json] | None:
        """The answer, or None if it took too long. Raises StatusError 429 with too many requests, 500 if the process
        died.
        """
        if self._waiting >= MAX_WAITING:
            raise StatusError(429, "TooManyRequests", "too many slow requests", {"retryAfterSeconds": 1})
        self._waiting += 1
        try:
            async with self._lock:
                return await self._run(work)
        finally:
            self._waiting -= 1

    async def _run(self, work: Work) -> list[Json] | None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._send(work)
        except TimeoutError:
            await self.close()
            return None
        except (OSError, ValueError) as error:  # the process was killed, for example by the OOM killer
            log.warning("the worker process ended", extra={"work": work.name, "error": repr(error)})
            await self.close()
            raise internal("the process that did a part of this request ended; try again") from error
        except asyncio.CancelledError:  # its late answer would be read as the answer to the next request
            await self.close()
            raise
        self._idle_timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_idle)
        return answer

    async def _send(self, work: Work) -> list[Json] | None:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *[sys.executable, "-m", __name__],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=MAX_LINE,
                start_new_session=True,  # Ctrl-C must only reach the parent
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(b'["' + work.name.encode() + b'",' + work.arguments + b"]\n")
        await stdin.drain()
        answer: list[Json] | None = orjson.loads(await stdout.readline())
        return answer

    def _end_idle(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process = None

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


# --- in the process ------------------------------------------------------------------------------------------


def main() -> None:
    """Answer requests until the input ends."""
    functions = _functions()
    for line in sys.stdin.buffer:
        name, arguments = orjson.loads(line)
        try:
            answer = run_with_limit(MAX_SECONDS, functions[name], *arguments)
        except TimeLimitExceeded:
            answer = None
        sys.stdout.buffer.write(orjson.dumps(answer, default=_listed) + b"\n")
        sys.stdout.buffer.flush()


def _listed(value: Any) -> list[Any]:
    """Convert FieldErrors, which are tuples, to JSON lists."""
    return list(value)


def _functions() -> dict[str, Callable[..., list[Json]]]:
    """The functions that the process can call, by the names that `limited` is called with."""
    from queue_manager.local.kinds.crd_schemas import validate_schema
    from queue_manager.local.kinds.custom_kinds import CustomSchema
    from queue_manager.local.server.request_bodies import convert_yaml

    @lru_cache(8)
    def schema(definition: bytes) -> CustomSchema:
        return CustomSchema(orjson.loads(definition), "", "")

    def problems(definition: Json, found: list[list[str]], *trees: Json) -> list[Json]:
        known = [FieldError(*error) for error in found]
        return [schema(orjson.dumps(definition)).problems(known, *trees)]

    return {
        "custom-object": problems,
        "definition": lambda *arguments: [validate_schema(*arguments)],
        "yaml": lambda text: list(convert_yaml(text.encode("latin-1"))),
    }


if __name__ == "__main__":
    main()
