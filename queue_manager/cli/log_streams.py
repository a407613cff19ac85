"""Prints logs of pods from the API server's log endpoint, whole or as they grow. The output is that of the containers,
byte for byte, except that lines of several pods begin with `[label] `.

A connection that breaks while a log is followed is opened again, and the part that was printed already is skipped. If
the container was restarted meanwhile, the rest of its log is read from the log of its previous start. A stop of
`sluice up` ends a followed log, which the next process of the container continues: it is read again from where it was
printed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from time import monotonic
from typing import NamedTuple

from job_controller.model import Job, Key
from job_controller.pod_facts import is_terminal
from queue_manager.api.api_resources import PODS
from queue_manager.cli.connection import NoResponse
from queue_manager.cli.connection_errors import plain_reason
from queue_manager.cli.named_targets import JobTarget, get_or_none
from queue_manager.cli.pod_reading import pods_of
from queue_manager.cli.polling import PATIENCE_SECONDS, Pace, patiently
from queue_manager.cli.standard_streams import say
from queue_manager.engine.exec_plugin import CredentialsError
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.visibility.log_selection import LogSource, log_sources
from queue_manager.visibility.pod_attempts import trouble
from queue_manager.visibility.wire_types import Pod

TROUBLE_SECONDS = 1.0  # after which it is reported that a pod does not start
LINE_BYTES = 1 << 16  # of a line, after which it is printed in parts


class LogPrinter:
    """Writes logs of one Job to standard output; `unreadable` counts those that could not be read.

    `empty`: those that were read to their end and had nothing in them.
    """

    def __init__(self, client: RestClient, namespace: str, *, prefixed: bool) -> None:
        self.unreadable = 0
        self.empty: list[LogSource] = []
        self._printed: dict[LogSource, int] = {}  # bytes of each log
        self._chosen: set[tuple[str, tuple[str, ...]]] = set()  # containers of which the others were named
        self._client = client
        self._namespace = namespace
        self._prefixed = prefixed

    async def print(self, source: LogSource, *, follow: bool = False) -> None:
        """Print one log from where it was printed before; with `follow` until its container has ended.

        Reports on standard error if that fails.
        """
        self._name_others(source)
        log, until = source.log, monotonic() + PATIENCE_SECONDS
        pace, broken = Pace(), False
        while True:
            try:
                if broken and (found := await self._reopened(source)) is None:
                    return
                source = found if broken and found is not None else source
                async for part in self._parts(source, follow=follow, skip=self._printed.get(log, 0)):
                    until = monotonic() + PATIENCE_SECONDS
                    self._printed[log] = self._printed.get(log, 0) + len(part)
                    self._write(source, part)
                if log not in self._printed:
                    self.empty.append(source)
                return
            except ApiError as error:
                self._report(source, f"{error.status} {error.reason}: {error.message}")
                return
            except NoResponse as error:
                if not follow or monotonic() > until:
                    self._report(source, str(error))
                    return
                broken = True
                await pace.pause(changed=False)

    async def _reopened(self, source: LogSource) -> LogSource | None:
        """Return the source to reopen a log after a lost connection; None if later starts have replaced the log."""
        pod = await get_or_none(self._client, PODS, Key(self._namespace, source.pod), Pod)
        statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses) if pod is not None else ()
        for status in statuses:
            if status.name == source.container:
                restarts = status.restart_count - source.restarts
                if restarts > 1:
                    return None
                return source._replace(before_restart=restarts > 0)
        return source

    async def _parts(self, source: LogSource, *, follow: bool, skip: int) -> AsyncIterator[bytes]:
        """Yield whole lines, without the first `skip` bytes of the log, and what is left at its end."""
        path = PODS.path(self._namespace, source.pod, "log")
        query = {"container": source.container}
        query |= {"follow": "true"} if follow and not source.before_restart else {}
        query |= {"previous": "true"} if source.before_restart else {}
        rest = b""
        try:
            async with self._client.transport.stream(path, query=query) as chunks:
                async for chunk in chunks:
                    fresh, skip = chunk[skip:], max(0, skip - len(chunk))
                    rest += fresh
                    cut = len(rest) if not self._prefixed or len(rest) > LINE_BYTES else rest.rfind(b"\n") + 1
                    if cut:
                        yield rest[:cut]
                        rest = rest[cut:]
        except CredentialsError:
            raise
        except OSError as error:
            raise NoResponse(plain_reason(error)) from error
        if rest:
            yield rest

    def _name_others(self, source: LogSource) -> None:
        """Report once which of several containers is printed, and the names of the others, as kubectl does."""
        choice = source.container, source.others
        if source.others and choice not in self._chosen:
            self._chosen.add(choice)
            say(
                f"defaulted container {source.container}; the pod also has: {', '.join(source.others)} (choose with -c)"
            )

    def _write(self, source: LogSource, part: bytes) -> None:
        if self._prefixed:
            head = f"[{source.label}] ".encode()
            part = b"".join(head + line for line in part.splitlines(keepends=True))
            part += b"" if part.endswith(b"\n") else b"\n"
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()

    def _report(self, source: LogSource, why: str) -> None:
        self.unreadable += 1
        say(f"cannot read the log of pod {source.pod}: {why}")


async def follow_job(
    client: RestClient,
    job: Job,
    printer: LogPrinter,
    is_over: Callable[[], Awaitable[bool]],
    *,
    index: int | None = None,
    container: str = "",
    skip: Sequence[LogSource] = (),
    on_trouble: Callable[[Sequence[Pod]], Awaitable[None]] | None = None,
) -> None:
    """Print the logs of all pods of a Job as they start, until `is_over` and their containers have ended.

    `skip`: logs of earlier attempts. `on_trouble`: called after a message about a pod that does not start was printed.
    """
    pace = Pace()
    streams: dict[LogSource, _Stream] = {}
    troubles, skipped = TroubleReport(), {source.log for source in skip}
    try:
        while True:
            over = await patiently(is_over)  # before the pods are read: no pod starts after the end
            pods = await patiently(lambda: pods_of(client, JobTarget(job, None)))
            found = log_sources(job, pods, index=index, container=container, all_attempts=True)
            due = [source for source in found if source.log not in skipped and _is_due(source, streams)]
            for source in due:
                task = asyncio.create_task(printer.print(source, follow=True))
                streams[source.log] = _Stream(source.started, task)
            for stream in streams.values():
                if stream.task.done():
                    stream.task.result()  # raises what ended it, e.g. a broken pipe
            if over and not due:
                await asyncio.gather(*(stream.task for stream in streams.values()))
                if not any(_is_due(source, streams) for source in found if source.log not in skipped):
                    return
            if troubles.report(pods) and on_trouble is not None:
                await on_trouble(pods)
            await pace.pause(changed=bool(due))
    finally:
        for stream in streams.values():
            stream.task.cancel()


class _Stream(NamedTuple):
    """A log that is being printed, or was until its process had ended. `started`: of that process."""

    started: datetime | None
    task: asyncio.Task[None]


def _is_due(source: LogSource, streams: Mapping[LogSource, _Stream]) -> bool:
    """Whether a log is not printed yet, or was printed to the end of a process that another process has followed.

    Agents may report different times of one start: then the log is read once more, and nothing is left to print.
    """
    known = streams.get(source.log)
    return known is None or (known.task.done() and known.started != source.started)


@contextmanager
def naming_continuation(command: str, name: str) -> Iterator[None]:
    """If the cluster does not respond, report the command that follows the Job again: the Job itself keeps running."""
    try:
        yield
    except NoResponse:
        say(f"{command}: this does not stop Job {name}; to follow it once the cluster responds: sluice logs -f {name}")
        raise


class TroubleReport:
    """Reports on standard error, once each, why pods do not start. A trouble that passes in time is left out."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}
        self._reported: set[str] = set()

    def report(self, pods: Sequence[Pod]) -> bool:
        """Report what lasts for TROUBLE_SECONDS; return whether there was anything new."""
        now, before = monotonic(), len(self._reported)
        waiting = [pod for pod in pods if not is_terminal(pod) and not pod.metadata.deletion_timestamp]
        seen = {(pod.metadata.name, ": ".join(part for part in trouble(pod) if part)) for pod in waiting}
        self._since = {one: self._since.get(one, now) for one in seen if one[1]}
        for (pod, text), since in sorted(self._since.items()):
            if now - since >= TROUBLE_SECONDS and text not in self._reported:
                self._reported.add(text)
                say(f"pod {pod}: {text}")
        return len(self._reported) > before
