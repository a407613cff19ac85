"""How to reach a cluster and who we are there: from a kubeconfig file, or from inside a pod.

Read directly with pyyaml, as client-go resolves it: token, token file (renewed while we run), basic
authentication, client certificate as file or data, CA as file or data, tls-server-name, proxy-url, whom to act as, and
the program that gives a token (`exec`). A user with an `auth-provider` is left to `kubernetes.aio.config`, imported
only then.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl as tls
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import yaml

from queue_manager import kube_yaml
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.exec_plugin import CredentialsError, credentials
from queue_manager.engine.kubeconfig_shape import mistake

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_VALUES = 100_000  # of a kubeconfig, once aliases are expanded
RENEW_AFTER = 60.0  # seconds; the kubelet renews a token well before it ends, client-go reads it as often


class KubeconfigError(ValueError):
    """The file does not say how to connect; the text says what is missing and where."""


class Authorization(Protocol):
    """Gives the value of the Authorization header, or an empty one."""

    async def __call__(self) -> str: ...

    def renew(self) -> None:
        """The server no longer takes it (401): find out anew with the next call."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """A server and who we are there. `files` are those of which all this was read; tokens renew themselves.

    `headers` go with every request: the name of one may come several times. `namespace`: of the pod that we are, if we
    are one.
    """

    server: str
    authorization: Authorization
    ssl: tls.SSLContext | None = None
    server_hostname: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    proxy: str | None = None  # its URL
    files: tuple[Path, ...] = ()
    namespace: str = ""


def load(path: str | Path, context: str | None = None) -> Access:
    """Access by this kubeconfig, in the given or its current context."""
    path = Path(path)
    tree, chosen, entry = _context(path, context)
    cluster = _named(path, tree, "clusters", "cluster", str(entry.get("cluster") or ""))
    user = _named(path, tree, "users", "user", str(entry["user"])) if entry.get("user") else {}
    server = _without_credentials(str(cluster.get("server") or ""))
    if not server.startswith(("http://", "https://")):
        raise KubeconfigError(f"{path}: the cluster of context {chosen!r} has no http(s) server: {server!r}")
    return Access(
        server=server,
        authorization=_authorization(path, chosen, cluster, user),
        ssl=_ssl(path, cluster, user) if server.startswith("https://") else None,
        server_hostname=cluster.get("tls-server-name"),
        headers=tuple(_impersonation(path, user)),
        proxy=_proxy(path, cluster),
        files=(path, *_referred(path, cluster, user)),
    )


def namespace(path: str | Path, context: str | None = None) -> str:
    """The namespace that this context is about where none is named; empty if it says none."""
    _, _, entry = _context(Path(path), context)
    return str(entry.get("namespace") or "")


def _context(path: Path, context: str | None) -> tuple[Mapping[str, Any], str, Mapping[str, Any]]:
    """The whole file, the name of the given or current context, and what it says."""
    try:
        tree = kube_yaml.load(path.read_bytes(), MAX_VALUES)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: is no YAML: {error}") from error
    if not isinstance(tree, dict):
        raise KubeconfigError(f"{path}: is no kubeconfig: expected a mapping")
    if wrong := mistake(tree):
        raise KubeconfigError(f"{path}: is no kubeconfig: {wrong}")
    chosen = context or tree.get("current-context") or ""
    if not chosen:
        raise KubeconfigError(f"{path}: no current-context is set; name a context")
    return tree, chosen, _named(path, tree, "contexts", "context", chosen)


def _without_credentials(url: str) -> str:
    """A server's URL without `user:password@`. We authenticate with the kubeconfig's user entry only."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _proxy(path: Path, cluster: Mapping[str, Any]) -> str | None:
    url = str(cluster.get("proxy-url") or "")
    if url and not url.startswith(("http://", "https://")):
        raise KubeconfigError(f"{path}: proxy-url has to be http or https: {url.rpartition('@')[2]!r}")
    return url or None


def service_account(root: Path = SERVICE_ACCOUNT) -> Access:
    """Access from inside a pod, with its service account."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeconfigError("not in a pod: KUBERNETES_SERVICE_HOST is not set")
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authorization=_TokenFile(root / "token"),
        ssl=_trusting(root / "ca.crt"),
        files=(root / "ca.crt",),
        namespace=_namespace(root / "namespace"),
    )


def _namespace(file: Path) -> str:
    """Not every pod is told its own."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _trusting(authority: Path) -> tls.SSLContext:
    try:
        return tls.create_default_context(cafile=str(authority))
    except OSError as error:
        raise KubeconfigError(f"{authority}: {error.strerror or error}") from error


def _named(path: Path, tree: Mapping[str, Any], section: str, field: str, name: str) -> Mapping[str, Any]:
    for entry in tree.get(section) or []:
        if entry.get("name") == name:
            return entry.get(field) or {}
    known = ", ".join(repr(entry.get("name")) for entry in tree.get(section) or []) or "none"
    raise KubeconfigError(f"{path}: {section} has no entry {name!r}; there are: {known}")


# --- who we are --------------------------------------------------------------------------------------------


def _authorization(path: Path, context: str, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Authorization:
    if file := user.get("tokenFile"):
        return _TokenFile(path.parent / file)
    if token := user.get("token"):
        return _Fixed(f"Bearer {token}")
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}".encode()
        return _Fixed("Basic " + base64.b64encode(pair).decode())
    if user.get("exec"):
        return _Program(path, context, cluster, user["exec"])
    if user.get("auth-provider"):
        return _Plugin(path, context)
    return _Fixed("")


def _impersonation(path: Path, user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Whom to act as. Who says so wants the rights of that user and not the own ones, which may be many more."""
    name, uid = user.get("as"), user.get("as-uid")
    groups, extra = user.get("as-groups") or (), user.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            raise KubeconfigError(
                f"{path}: as-uid, as-groups and as-user-extra belong to a user to act as, and no `as` is set"
            )
        return
    yield "Impersonate-User", str(name)
    if uid:
        yield "Impersonate-Uid", str(uid)
    for group in groups:
        yield "Impersonate-Group", str(group)
    for key, values in extra.items():
        for value in values:
            yield f"Impersonate-Extra-{quote(str(key), safe='')}", str(value)


class _Fixed:
    def __init__(self, value: str) -> None:
        self._value = value

    async def __call__(self) -> str:
        return self._value

    def renew(self) -> None:
        """There is no other."""


class _TokenFile:
    """A token that is renewed in place; a file that cannot be read for a moment leaves the last token."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._value = ""
        self._read_at = float("-inf")

    async def __call__(self) -> str:
        now = asyncio.get_running_loop().time()
        if now - self._read_at >= RENEW_AFTER:
            try:
                self._value = "Bearer " + self._path.read_text().strip()
                self._read_at = now
            except OSError as error:
                if not self._value:
                    raise CredentialsError(f"{self._path}: {error.strerror or error}") from error
        return self._value

    def renew(self) -> None:
        self._read_at = float("-inf")


class _Program:
    """A token that a program gives; it is asked again when the token expires, or after a minute if it says no time."""

    def __init__(self, path: Path, context: str, cluster: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        self._path, self._context, self._cluster, self._spec = path, context, cluster, spec
        self._value = ""
        self._until = float("-inf")
        self._lock = asyncio.Lock()

    async def __call__(self) -> str:
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now >= self._until:
                try:
                    status = await credentials(self._spec, self._cluster, self._path.parent)
                except CredentialsError as error:
                    raise CredentialsError(f"{self._path}: the user of context {self._context!r}: {error}") from error
                self._value = f"Bearer {status.token}"
                self._until = now + _seconds_left(status.expiration_timestamp)
        return self._value

    def renew(self) -> None:
        self._until = float("-inf")


def _seconds_left(expires: datetime | None) -> float:
    """At least one: not every request is worth a process."""
    return RENEW_AFTER if expires is None else max(1.0, (expires - SystemClock().now()).total_seconds())


class _Plugin:
    """A token that an identity provider gives; asked again when a minute has passed.

    The loader of `kubernetes.aio` itself keeps the token until it expires.
    """

    def __init__(self, path: Path, context: str) -> None:
        self._path, self._context = path, context
        self._value = ""
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()
        self._loader: Any = None

    async def __call__(self) -> str:
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._read_at >= RENEW_AFTER:
                try:
                    self._value = await self._ask()
                except OSError:
                    raise
                except Exception as error:  # whatever a plugin, or what reads its answer, may raise
                    raise CredentialsError(f"{self._path}: the plugin of context {self._context!r}: {error}") from error
                self._read_at = now
        return self._value

    def renew(self) -> None:
        self._read_at = float("-inf")
        self._loader = None  # it would keep a token that has not expired by its own word

    async def _ask(self) -> str:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import load_kube_config

        configuration = Configuration()
        if self._loader is None:
            self._loader = await load_kube_config(  # type: ignore[no-untyped-call]
                str(self._path), context=self._context, client_configuration=configuration
            )
        else:
            await self._loader.load_and_set(configuration)
        token = configuration.api_key.get("BearerToken")
        if not token:
            raise CredentialsError(f"{self._path}: the plugin of context {self._context!r} gave no token")
        return str(token)


# --- whom we trust -----------------------------------------------------------------------------------------


def _ssl(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> tls.SSLContext:
    authority = _content(path, cluster, "certificate-authority")
    context = tls.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = tls.CERT_NONE
    certificate, key = _content(path, user, "client-certificate"), _content(path, user, "client-key")
    if certificate and key:
        _present(context, certificate, key)
    elif certificate or key:
        raise KubeconfigError(f"{path}: client-certificate and client-key must be given together")
    return context


def _content(path: Path, entry: Mapping[str, Any], field: str) -> bytes | None:
    """A field that is given as data, or as a file relative to the kubeconfig. Data wins, as in client-go."""
    if data := entry.get(f"{field}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except ValueError as error:
            raise KubeconfigError(f"{path}: {field}-data is not base64") from error
    return (path.parent / entry[field]).read_bytes() if entry.get(field) else None


def _referred(path: Path, *entries: Mapping[str, Any]) -> list[Path]:
    """Files from which certificates and keys were read."""
    fields = ("certificate-authority", "client-certificate", "client-key")
    return [path.parent / entry[field] for entry in entries for field in fields if _is_file(entry, field)]


def _is_file(entry: Mapping[str, Any], field: str) -> bool:
    return bool(entry.get(field)) and not entry.get(f"{field}-data")


def _present(context: tls.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL's Python binding reads certificates of ours only from a file, so make one for a moment."""
    with tempfile.NamedTemporaryFile(prefix="sluice-") as file:  # mode 0600
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)
