"""A transport to an API server that picks up renewed credentials.

Credential files change while the process runs: the kubelet renews a service account token, a login rewrites the
kubeconfig, certificates are rotated. The transport handles this in three ways:

- `follow` checks the files from which the access was read every few seconds and sends requests with the new access
  after a change. If a file cannot be read (half written, say), the old access stays in use.
- A request that is answered with 401 was not executed. The transport reads token and files immediately and repeats the
  request if the credentials differ.
- Once the last request with the old access is answered, its connections are closed, including its watches. These
  reconnect from their last resourceVersion with the new credentials.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.kubeconfig import Access, KubeconfigError
from queue_manager.engine.transport_protocol import ApiError, Request, Response

log = logging.getLogger(__name__)

FILE_CHECK_SECONDS = 5.0  # between two checks of the files
RENEW_SECONDS = 1.0  # at least between two renewals on 401: an exec plugin starts a program

State = tuple[tuple[int, int, int] | None, ...]


class _Link:
    """One set of credentials and the connections opened with it."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.http = HttpTransport.of(access)
        self.requests = 0
        self.retired = False


class ClusterTransport:
    """Implements `Transport`. `read` returns the access that the files give now; the constructor calls it first."""

    def __init__(self, read: Callable[[], Access]) -> None:
        """Raises what `read` raises: KubeconfigError, OSError."""
        self._read = read
        self._link = _Link(read())
        self._state = _state(self._link.access.files)
        self._renew_at = float("-inf")
        self._renewing = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def access(self) -> Access:
        """The server and the identity that requests use now; both may change when the files do."""
        return self._link.access

    async def request(self, request: Request) -> Response:
        """Send a request; if its credentials are rejected (401), once more with new ones."""
        for last in (False, True):
            used = await self.access.authorization()
            link = self._link
            link.requests += 1
            try:
                answer = await link.http.request(request)
            finally:
                self._done(link)
            if last or answer.status != HTTPStatus.UNAUTHORIZED or not await self._renewed(link, used):
                break
        return answer

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream with the current credentials. If they are rejected, read new ones and raise ApiError."""
        used = await self.access.authorization()
        link = self._link
        link.requests += 1  # counts until the response head arrives; after that the link may be closed
        answered = False
        try:
            async with link.http.stream(path, query=query) as chunks:
                answered = True
                self._done(link)
                yield chunks
        except ApiError as error:
            if error.is_unauthorized:
                await self._renewed(link, used)  # the caller reconnects the watch
            raise
        finally:
            if not answered:
                self._done(link)

    async def close(self) -> None:
        """Close the connections in use, and wait for those that are being replaced."""
        await self._link.http.close()
        if self._closing:
            await asyncio.wait(self._closing)

    # --- new credentials ---

    async def follow(self) -> None:
        """Check the files until cancelled. Needed even without requests: open watches must move to the new access."""
        while True:
            await asyncio.sleep(FILE_CHECK_SECONDS)
            self.check_files()

    def check_files(self) -> None:
        """Switch to new credentials if a file changed."""
        state = _state(self._link.access.files)
        if state == self._state:
            return
        try:
            link = _Link(self._read())
        except (KubeconfigError, OSError, ValueError) as error:
            log.warning("cannot read the changed credentials, keeping the old ones", extra={"error": str(error)})
            return
        log.info("credentials changed, reconnecting", extra={"server": link.access.server})
        old, self._link = self._link, link
        self._state = _state(link.access.files)
        old.retired = True
        self._close_if_done(old)

    async def _renewed(self, link: _Link, used: str) -> bool:
        """After a 401: read the credentials again and return whether they differ from the refused ones."""
        async with self._renewing:
            if link is not self._link or await link.access.authorization() != used:
                return True  # another request has renewed them meanwhile
            now = asyncio.get_running_loop().time()
            if now < self._renew_at:
                return False
            self._renew_at = now + RENEW_SECONDS
            self.check_files()
            self.access.authorization.renew()
            return link is not self._link or await self.access.authorization() != used

    def _done(self, link: _Link) -> None:
        link.requests -= 1
        self._close_if_done(link)

    def _close_if_done(self, link: _Link) -> None:
        if link.retired and not link.requests:
            closing = asyncio.create_task(link.http.close(), name="close old connections")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


def _state(files: tuple[Path, ...]) -> State:
    """Return values that differ once a file is rewritten or replaced."""
    return tuple(_file_state(file) for file in files)


def _file_state(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
