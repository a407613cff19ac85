"""Selects the cluster of a client command and connects to it.

A local cluster that was started again has another address, and perhaps another token, in the same kubeconfig: after a
request without response the file is read again if it has changed, and its next repetition goes to the new address.
While `sluice up` starts, the first request is repeated until the API server answers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic

from queue_manager.cli.api_error_text import api_error_text
from queue_manager.cli.connection_errors import may_have_arrived, plain_reason
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.engine import kubeconfig as kubeconfigs
from queue_manager.engine.exec_plugin import CredentialsError
from queue_manager.engine.renewing_transport import ClusterTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response, Transport
from queue_manager.local.kubeconfig_file import is_of_local_cluster
from queue_manager.visibility.obstacles import NOT_INSTALLED

NOT_LOGGED_IN = 401
START_SECONDS, START_POLL_SECONDS = 30.0, 0.1  # for a cluster that starts, on a busy machine


def one_namespace(args: argparse.Namespace) -> str:
    """Return advice for a user who may not list all namespaces; "" if the command named a namespace."""
    return "" if args.namespace else "-n NAMESPACE reads that namespace only"


def home_directory() -> Path:
    """Return the user's home directory. Raises CommandRefused if unknown, e.g. for a bare UID in a container."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise CommandRefused("this user has no home directory; set HOME") from error


def default_data_dir() -> Path:
    """Return the data directory of `sluice up`: $SLUICE_DATA_DIR, else ~/.sluice."""
    return Path(os.environ.get("SLUICE_DATA_DIR") or home_directory() / ".sluice")


def find_kubeconfig(chosen: str | None, *, option: str = "--kubeconfig") -> Path:
    """Return the chosen file, else $KUBECONFIG, else that of `sluice up`, else kubectl's. Raises CommandRefused.

    If $KUBECONFIG lists several files, the first existing one is used. `option`: by what a file is chosen.
    """
    if chosen:
        candidates = [Path(chosen)]
    elif os.environ.get("KUBECONFIG"):
        candidates = [Path(part) for part in os.environ["KUBECONFIG"].split(os.pathsep) if part]
    else:
        candidates = [default_data_dir() / "kubeconfig", home_directory() / ".kube" / "config"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    tried = ", ".join(str(candidate) for candidate in candidates)
    raise CommandRefused(
        f"no kubeconfig found (checked {tried}); start a cluster with `sluice up`, or name one with {option}"
    )


def read_default_namespace(args: argparse.Namespace) -> str:
    """Return the default namespace of commands: that of the context, else `default`, as in kubectl."""
    path = find_kubeconfig(args.kubeconfig)
    with _readable(path):
        return kubeconfigs.namespace(path, args.context) or "default"


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Convert errors in a kubeconfig to a CommandRefused that names the file."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        said = str(error)
        raise CommandRefused(said if str(path) in said else f"{path}: {said}") from error


class NoResponse(Exception):
    """The API server did not respond. Not an OSError, so that it differs from a broken pipe on standard output.

    `server`: the URL that was asked, "" if unknown. `may_have_arrived`: whether it may have executed the request.
    """

    def __init__(self, why: str, server: str = "", *, may_have_arrived: bool = True) -> None:
        super().__init__(why)
        self.server = server
        self.may_have_arrived = may_have_arrived


class _Start:
    """The start of the local cluster whose kubeconfig this is, as far as it can be seen from outside."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._until: float | None = None

    async def lasts(self) -> bool:
        """Pause, and return True while a process holds the data directory, at most START_SECONDS in all.

        A cluster that refuses connections meanwhile is about to serve, or to end.
        """
        from queue_manager.local.storage.lock_holder import lock_holder  # imported late: few commands need it

        if not is_of_local_cluster(self._kubeconfig) or lock_holder(self._kubeconfig.parent) is None:
            return False
        self._until = monotonic() + START_SECONDS if self._until is None else self._until
        await asyncio.sleep(START_POLL_SECONDS)
        return monotonic() < self._until


class _NoResponseTransport(Relay):
    """Raises NoResponse if a request has no response; a broken stream keeps its OSError.

    `renew`: called before either is raised, so that a caller that tries again has the current credentials. `start`: of
    the cluster; until the first response a request that did not arrive is repeated as long as that lasts.
    """

    def __init__(self, inner: ClusterTransport, renew: Callable[[], None], start: _Start) -> None:
        super().__init__(inner)
        self._cluster = inner
        self._renew = renew
        self._start = start
        self._has_answered = False

    async def request(self, request: Request) -> Response:
        while True:
            server = self._cluster.access.server
            try:
                response = await super().request(request)
            except CredentialsError:  # a subclass of OSError that must not become NoResponse
                raise
            except OSError as error:
                self._renew()
                arrived = may_have_arrived(error)
                if self._has_answered or arrived or not await self._start.lasts():
                    raise NoResponse(plain_reason(error), server, may_have_arrived=arrived) from error
            else:
                self._has_answered = True
                return response

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        try:
            async with super().stream(path, query=query) as chunks:
                yield chunks
        except CredentialsError:
            raise
        except OSError:
            self._renew()
            raise


def unanswered(path: Path | None, server: str, why: str) -> str:
    """Return the error message for a cluster that does not answer: its address, the cause, and the remedy.

    `path`: its kubeconfig, None if unknown. `server`: its URL, "" if unknown.
    """
    address = f" at {server}" if server else ""
    if path is None or not is_of_local_cluster(path):
        return f"{_cluster_of(path)} does not answer{address} ({why}): it is down, or the address is wrong"
    folder = (
        "" if path.parent.resolve() == default_data_dir().resolve() else f" --data-dir {shlex.quote(str(path.parent))}"
    )
    return f"the cluster of {path.parent} does not answer{address} ({why}); to start it: sluice up{folder}"


def refused(path: Path | None, error: ApiError) -> str:
    """Return the error message for a request that the API server answers with an error. `path`: its kubeconfig."""
    if error.is_unauthorized:
        return f"{_cluster_of(path)} rejects the credentials (401): log in again"
    if error.is_unserved:
        return f"{_cluster_of(path)} {NOT_INSTALLED}"
    return api_error_text(error)


def _cluster_of(path: Path | None) -> str:
    return "the cluster" if path is None else f"the cluster of {path}"


def _server(path: Path, context: str) -> str:
    """Return the URL of the server; "" if the file is gone, or is being written."""
    try:
        return kubeconfigs.load(path, context).server
    except (OSError, ValueError, KeyError):
        return ""


@asynccontextmanager
async def connect(
    kubeconfig: str | None,
    context: str | None,
    *,
    forbidden: str = "",
    relay: Callable[[Transport], Transport] = lambda transport: transport,
) -> AsyncIterator[RestClient]:
    """Yield a client of the chosen cluster. Raises CommandRefused if it does not respond or rejects a request.

    `forbidden`: advice for a user who lacks a permission. `relay`: wraps the transport.
    """
    path = find_kubeconfig(kubeconfig)
    with _readable(path):
        # Another context that becomes the current one meanwhile is another cluster.
        chosen = kubeconfigs.context_name(path, context)
        transport = ClusterTransport(partial(kubeconfigs.load, path, chosen))

    def renew() -> None:
        if path.is_file():
            transport.check_files()

    try:
        yield RestClient(relay(_NoResponseTransport(transport, renew, _Start(path))))
    except ApiError as error:
        advice = f"; {forbidden}" if forbidden and error.is_forbidden else ""
        raise CommandRefused(f"{refused(path, error)}{advice}") from error
    except CredentialsError as error:
        raise CommandRefused(str(error)) from error
    except NoResponse as error:
        raise CommandRefused(unanswered(path, error.server or _server(path, chosen), str(error))) from error
    finally:
        await transport.close()
