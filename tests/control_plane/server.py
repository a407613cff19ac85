"""A real kube-apiserver with etcd on loopback for tests: TLS, RBAC, random ports, removed when closed.

with ControlPlane.start() as plane:
    plane.kubeconfig   # path of an administrator's kubeconfig
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.control_plane import audit, provide

READY_SECONDS = 60.0
# These processes die with the tests, by prctl(PR_SET_PDEATHSIG, SIGKILL): tests that are killed cannot stop them.
# The signal comes when the starting thread ends, so a thread that lives as long as the interpreter starts them.
_SPAWNER = ThreadPoolExecutor(1)
_LEASH = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
LEASH = (sys.executable, "-c", _LEASH) if sys.platform == "linux" else ()
_HELD_PORTS: list[socket.socket] = []


@dataclass(frozen=True)
class ControlPlane:
    url: str
    token: str
    ca: Path
    kubeconfig: Path
    folder: Path
    etcd: str  # its client URL
    _flags: tuple[str, ...]  # of kube-apiserver
    _processes: dict[str, subprocess.Popen[bytes]]
    _restarts: list[tuple[datetime, datetime]]  # from the start of the API server until it was ready

    def stop_api_server(self) -> None:
        """kill -9: watches break without a response. etcd stays."""
        self._processes["kube-apiserver"].kill()
        self._processes["kube-apiserver"].wait()

    def start_api_server(self) -> None:
        """Start it on the port and with the data that it had before."""
        began = datetime.now(UTC)
        self._processes["kube-apiserver"] = _spawn(self.folder, "kube-apiserver", *self._flags)
        _wait_ready(self, list(self._processes.values()))
        self._restarts.append((began, datetime.now(UTC)))

    def refusals(self) -> list[audit.Act]:
        """What service accounts asked for without the right to it.

        Without those of LIMITED accounts, which tests give too few rights, and those of a server that has just started
        and does not know the roles yet.
        """
        acts = (act for act in audit.acts(audit.log_of(self.folder)) if not act.is_allowed)
        known = [act for act in acts if not any(began <= act.time <= ready for began, ready in self._restarts)]
        return [act for act in known if not act.account.partition(":")[2].startswith(audit.LIMITED)]

    def check(self) -> None:
        """Raise RuntimeError with the end of the logs if one of its processes has ended."""
        ended = {name: process.poll() for name, process in self._processes.items() if process.poll() is not None}
        if ended:
            raise RuntimeError(f"the control plane has ended, return codes {ended}:\n{_logs(self.folder)}")

    def pids(self) -> dict[str, int]:
        """By name: etcd and kube-apiserver."""
        return {name: process.pid for name, process in self._processes.items()}

    def ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    @classmethod
    @contextlib.contextmanager
    def start(cls, *extra_flags: str, address: str = "127.0.0.1") -> Iterator[ControlPlane]:
        """Start etcd and kube-apiserver; raises RuntimeError with the end of the log if they do not become ready.

        `address`: where kube-apiserver serves; pods in network namespaces of their own cannot reach loopback. The audit
        log records what service accounts do; `extra_flags` may set another one.
        """
        folder = Path(tempfile.mkdtemp(prefix="sluice-control-plane-"))
        processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            etcd_port, peer_port, port = free_ports(3)
            etcd = f"http://127.0.0.1:{etcd_port}"
            processes["etcd"] = _spawn(
                folder,
                "etcd",
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
                "--unsafe-no-fsync",
                "--log-level=error",
            )
            token = secrets.token_hex(16)
            (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
            key = folder / "service-accounts.key"
            key.write_bytes(_new_key())
            flags = (
                f"--etcd-servers={etcd}",
                f"--secure-port={port}",
                f"--bind-address={address}",
                f"--cert-dir={folder / 'certs'}",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--token-auth-file={folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
                "--service-cluster-ip-range=10.0.0.0/24",
                *audit.flags(folder),
                *extra_flags,
            )
            processes["kube-apiserver"] = _spawn(folder, "kube-apiserver", *flags)
            ca = folder / "certs" / "apiserver.crt"
            url = f"https://{address}:{port}"
            plane = cls(url, token, ca, folder / "kubeconfig", folder, etcd, flags, processes, [])
            _wait_ready(plane, list(processes.values()))
            plane.kubeconfig.write_text(json.dumps(_kubeconfig(plane)))
            yield plane
        finally:
            _stop(list(processes.values()))
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def controllers(self, *names: str) -> Iterator[None]:
        """Run kube-controller-manager with these controllers only."""
        process = _spawn(
            self.folder,
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(names)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        )
        try:
            yield
        finally:
            _stop([process])


def free_ports(count: int) -> list[int]:
    """Ports that this process alone gives away until it ends, so that a server can also be started again on its port.

    Each stays bound, without listening: the kernel chooses it for no other socket, and a server binds it all the same,
    with SO_REUSEADDR, which etcd, Kubernetes, asyncio and socket.create_server set.
    """
    for _ in range(count):
        _HELD_PORTS.append(socket.socket())
        _HELD_PORTS[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _HELD_PORTS[-1].bind(("127.0.0.1", 0))
    return [sock.getsockname()[1] for sock in _HELD_PORTS[len(_HELD_PORTS) - count :]]


def _spawn(folder: Path, name: str, *flags: str) -> subprocess.Popen[bytes]:
    binary = provide.find(name)
    if binary is None:
        raise RuntimeError(f"{name} is missing; run: make control-plane")
    with (folder / f"{name}.log").open("ab") as log:
        command = [*LEASH, binary, *flags]
        return _SPAWNER.submit(subprocess.Popen, command, stdout=log, stderr=log, cwd=folder).result()


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Kill the processes: a polite shutdown of the API server waits ten seconds for its clients."""
    for process in reversed(processes):
        process.kill()
        process.wait()


def _new_key() -> bytes:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _wait_ready(plane: ControlPlane, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and all(process.poll() is None for process in processes):
        with contextlib.suppress(OSError):
            request = urllib.request.Request(f"{plane.url}/readyz", headers={"Authorization": f"Bearer {plane.token}"})
            with urllib.request.urlopen(request, context=plane.ssl_context(), timeout=2) as answer:
                if answer.status == 200:
                    return
        time.sleep(0.1)  # the server does not signal that it is ready
    raise RuntimeError(f"the control plane did not become ready within {READY_SECONDS:.0f} s:\n{_logs(plane.folder)}")


def _logs(folder: Path) -> str:
    return "\n".join(log.read_text()[-2000:] for log in sorted(folder.glob("*.log")))


def _kubeconfig(plane: ControlPlane) -> dict[str, object]:
    authority = base64.b64encode(plane.ca.read_bytes()).decode()
    cluster = {"server": plane.url, "certificate-authority-data": authority}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": plane.token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }
