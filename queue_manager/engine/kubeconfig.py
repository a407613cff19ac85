"""How to reach a cluster and which identity to use: from a kubeconfig file, or from inside a pod.

Reads with pyyaml what client-go reads: token, token file (re-read while we run), basic authentication, client
certificate and CA as file or data, tls-server-name, proxy-url, impersonation, and credential programs (`exec`). Only a
user with an `auth-provider` goes through `kubernetes.aio.config`, which is imported then.
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
from queue_manager.engine.kubeconfig_shape import shape_error

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_VALUES = 100_000  # YAML values in a kubeconfig, aliases expanded
RENEW_AFTER_SECONDS = 60.0  # as client-go; the kubelet renews a token long before it expires


class KubeconfigError(ValueError):
    """The kubeconfig is incomplete or malformed; the text names the part and what is wrong with it."""


class Authorization(Protocol):
    """Calling it returns the value of the Authorization header, or "" for none. Raises CredentialsError."""

    async def __call__(self) -> str:
        """Return the value; it may be a new one at each call."""
        ...

    def renew(self) -> None:
        """Discard the value, which the server has rejected (401): the next call obtains a new one."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """A server, and the identity to use there. Tokens are renewed by `authorization`.

    `files` are the files from which this was read. `headers` are sent with every request; a name may occur several
    times. `namespace` is that of our own pod, if we run in one, else "".
    """

    server: str
    authorization: Authorization
    ssl: tls.SSLContext | None = None
    server_hostname: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    proxy: str | None = None  # URL
    files: tuple[Path, ...] = ()
    namespace: str = ""


def load(path: str | Path, context: str | None = None) -> Access:
    """Read this kubeconfig in the given or its current context. Raises KubeconfigError or OSError."""
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
        files=(path, *_referenced_files(path, cluster, user)),
    )


def namespace(path: str | Path, context: str | None = None) -> str:
    """The default namespace of the given or current context, or "" if it has none."""
    _, _, entry = _context(Path(path), context)
    return str(entry.get("namespace") or "")


def context_name(path: str | Path, context: str | None = None) -> str:
    """The given context, else the current one of the file. Raises KubeconfigError or OSError."""
    return _context(Path(path), context)[1]


def certificates(path: str | Path, context: str | None = None) -> dict[str, bytes]:
    """The PEM texts of the CA of the given or current context and of its user's certificate, by their field names."""
    path = Path(path)
    tree, _, entry = _context(path, context)
    cluster = _named(path, tree, "clusters", "cluster", str(entry.get("cluster") or ""))
    user = _named(path, tree, "users", "user", str(entry["user"])) if entry.get("user") else {}
    found = (("certificate-authority", cluster), ("client-certificate", user))
    return {field: pem for field, section in found if (pem := _content(path, section, field))}


def _context(path: Path, context: str | None) -> tuple[Mapping[str, Any], str, Mapping[str, Any]]:
    """(the whole file, the name of the given or current context, the content of that context)."""
    try:
        tree = kube_yaml.load(path.read_bytes(), MAX_VALUES)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: is not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise KubeconfigError(f"{path}: is not a kubeconfig: expected a mapping")
    if wrong := shape_error(tree):
        raise KubeconfigError(f"{path}: is not a kubeconfig: {wrong}")
    chosen = context or tree.get("current-context") or ""
    if not chosen:
        raise KubeconfigError(f"{path}: no current-context is set; name a context")
    return tree, chosen, _named(path, tree, "contexts", "context", chosen)


def _without_credentials(url: str) -> str:
    """The server's URL without `user:password@`: only the kubeconfig's user entry authenticates."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _proxy(path: Path, cluster: Mapping[str, Any]) -> str | None:
    url = str(cluster.get("proxy-url") or "")
    if url and not url.startswith(("http://", "https://")):
        raise KubeconfigError(f"{path}: proxy-url has to be http or https: {url.rpartition('@')[2]!r}")
    return url or None


def service_account(root: Path = SERVICE_ACCOUNT) -> Access:
    """Access from inside a pod, with its service account. Raises KubeconfigError or OSError."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeconfigError("not in a pod: KUBERNETES_SERVICE_HOST is not set")
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authorization=_TokenFile(root / "token"),
        ssl=_ssl_context(root / "ca.crt"),
        files=(root / "ca.crt",),
        namespace=_namespace(root / "namespace"),
    )


def _namespace(file: Path) -> str:
    """The namespace in this file; "" if the pod has no such file."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _ssl_context(authority: Path) -> tls.SSLContext:
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


# --- identity -------------------------------------------------------------------------------------------------


def _authorization(path: Path, context: str, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Authorization:
    if file := user.get("tokenFile"):
        return _TokenFile(path.parent / file)
    if token := user.get("token"):
        return _StaticToken(f"Bearer {token}")
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}".encode()
        return _StaticToken("Basic " + base64.b64encode(pair).decode())
    if user.get("exec"):
        return _ExecPlugin(path, context, cluster, user["exec"])
    if user.get("auth-provider"):
        return _AuthProvider(path, context)
    return _StaticToken("")


def _impersonation(path: Path, user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the impersonation headers of a user entry. Without them requests would have the rights of the real user."""
    name, uid = user.get("as"), user.get("as-uid")
    groups, extra = user.get("as-groups") or (), user.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            raise KubeconfigError(f"{path}: as-uid, as-groups and as-user-extra need `as`, which is not set")
        return
    yield "Impersonate-User", str(name)
    if uid:
        yield "Impersonate-Uid", str(uid)
    for group in groups:
        yield "Impersonate-Group", str(group)
    for key, values in extra.items():
        for value in values:
            yield f"Impersonate-Extra-{quote(str(key), safe='')}", str(value)


class _StaticToken:
    """A header value that never changes."""

    def __init__(self, value: str) -> None:
        self._value = value

    async def __call__(self) -> str:
        return self._value

    def renew(self) -> None:
        """Does nothing: there is no other value."""


class _TokenFile:
    """A token from a file that is re-read every RENEW_AFTER_SECONDS. If that fails, the last token is used.

    A file that is being rewritten is empty for a moment. Without a token the API server takes us for anonymous and
    answers 403, while a refused token gets 401 and is renewed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._value = ""
        self._read_at = float("-inf")

    async def __call__(self) -> str:
        now = asyncio.get_running_loop().time()
        if now - self._read_at >= RENEW_AFTER_SECONDS:
            try:
                token = self._path.read_text().strip()
            except OSError as error:
                if not self._value:
                    raise CredentialsError(f"{self._path}: {error.strerror or error}") from error
                return self._value
            if token:
                self._value, self._read_at = f"Bearer {token}", now
            elif not self._value:
                raise CredentialsError(f"{self._path}: is empty")
        return self._value

    def renew(self) -> None:
        self._read_at = float("-inf")


class _ExecPlugin:
    """A token from a credential program, which runs again when the token expires.

    Without an expiry it runs again after RENEW_AFTER_SECONDS.
    """

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
    """Seconds until `expires`, at least 1, so that not every request starts a process."""
    return RENEW_AFTER_SECONDS if expires is None else max(1.0, (expires - SystemClock().now()).total_seconds())


class _AuthProvider:
    """A token from an `auth-provider`, requested again after RENEW_AFTER_SECONDS.

    The loader of `kubernetes.aio` keeps the token until it expires.
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
            if now - self._read_at >= RENEW_AFTER_SECONDS:
                try:
                    self._value = await self._request_token()
                except OSError:
                    raise
                except Exception as error:  # a plugin may raise anything
                    raise CredentialsError(f"{self._path}: the plugin of context {self._context!r}: {error}") from error
                self._read_at = now
        return self._value

    def renew(self) -> None:
        self._read_at = float("-inf")
        self._loader = None  # the loader would keep a token whose expiry has not passed

    async def _request_token(self) -> str:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import load_kube_config

        configuration = Configuration()
        if self._loader is None:
            self._loader = await load_kube_config(
                str(self._path), context=self._context, client_configuration=configuration
            )
        else:
            await self._loader.load_and_set(configuration)
        token = configuration.api_key.get("BearerToken")
        if not token:
            raise CredentialsError(f"{self._path}: the plugin of context {self._context!r} returned no token")
        return str(token)


# --- trust -------------------------------------------------------------------------------------------------


def _ssl(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> tls.SSLContext:
    authority = _content(path, cluster, "certificate-authority")
    context = _trusting(path, authority) if authority else tls.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = tls.CERT_NONE
    certificate, key = _content(path, user, "client-certificate"), _content(path, user, "client-key")
    if certificate and key:
        try:
            _load_client_certificate(context, certificate, key)
        except tls.SSLError as error:
            raise KubeconfigError(f"{path}: client-certificate and client-key: {_reason(error)}") from error
    elif certificate or key:
        raise KubeconfigError(f"{path}: client-certificate and client-key must be given together")
    return context


def _trusting(path: Path, authority: bytes) -> tls.SSLContext:
    try:
        return tls.create_default_context(cadata=authority.decode("ascii"))
    except (UnicodeDecodeError, tls.SSLError) as error:
        why = _reason(error) if isinstance(error, tls.SSLError) else "it is not text"
        raise KubeconfigError(f"{path}: certificate-authority is not a PEM certificate: {why}") from error


def _reason(error: tls.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def _content(path: Path, entry: Mapping[str, Any], field: str) -> bytes | None:
    """A field given as data, or as a file relative to the kubeconfig. Data has precedence, as in client-go."""
    if data := entry.get(f"{field}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except ValueError as error:
            raise KubeconfigError(f"{path}: {field}-data is not base64") from error
    return (path.parent / entry[field]).read_bytes() if entry.get(field) else None


def _referenced_files(path: Path, *entries: Mapping[str, Any]) -> list[Path]:
    """The files from which certificates and keys were read."""
    fields = ("certificate-authority", "client-certificate", "client-key")
    return [path.parent / entry[field] for entry in entries for field in fields if _is_file(entry, field)]


def _is_file(entry: Mapping[str, Any], field: str) -> bool:
    return bool(entry.get(field)) and not entry.get(f"{field}-data")


def _load_client_certificate(context: tls.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load the client certificate. Python's ssl reads it only from a file, so a temporary one is written."""
    with tempfile.NamedTemporaryFile(prefix="sluice-") as file:  # mode 0600
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)
