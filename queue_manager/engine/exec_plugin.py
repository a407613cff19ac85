"""Runs the credential program of a kubeconfig (`users[].user.exec`) as client-go does (KEP-541).

The program writes to the standard error of this process, because it may ask a person to log in, and wait for that.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from queue_manager.engine.json_codec import UNDECODABLE

GROUP = "client.authentication.k8s.io"
# Fields of the kubeconfig's cluster that are passed to the program if provideClusterInfo is true.
CLUSTER_FIELDS = (
    *("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url"),
    "disable-compression",
)


class CredentialsError(ConnectionError):
    """No credentials can be obtained now; the text says why."""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """`status` of an ExecCredential: a token and its expiry."""

    token: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    client_certificate_data: str = ""


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: Status | None = None


async def credentials(spec: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path) -> Status:
    """Run the program. `spec` (the `exec` entry) and `cluster` are as in the kubeconfig, which is in `folder`.

    Raises CredentialsError.
    """
    command, version = str(spec.get("command") or ""), str(spec.get("apiVersion") or "")
    may_ask = spec.get("interactiveMode") != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if spec.get("interactiveMode") == "Always" and not may_ask:
        raise CredentialsError(f"{command} needs an interactive terminal, and standard input is not one")
    program = str(folder / command) if "/" in command else command
    stdin = None if may_ask else asyncio.subprocess.DEVNULL
    arguments = [str(argument) for argument in spec.get("args") or ()]
    environment = {**os.environ, **_environment(spec), "KUBERNETES_EXEC_INFO": _info(spec, cluster, may_ask)}
    try:
        process = await asyncio.create_subprocess_exec(
            program, *arguments, env=environment, stdin=stdin, stdout=asyncio.subprocess.PIPE
        )
    except OSError as error:
        hint = " ".join(str(spec.get("installHint") or "").split())
        raise CredentialsError(f"{command}: {error.strerror or error}" + (f"; {hint}" if hint else "")) from error
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise CredentialsError(f"{command} exited with {process.returncode}")
    return _read(command, version, output)


def _environment(spec: Mapping[str, Any]) -> dict[str, str]:
    return {str(entry["name"]): str(entry.get("value") or "") for entry in spec.get("env") or ()}


def _info(spec: Mapping[str, Any], cluster: Mapping[str, Any], interactive: bool) -> str:
    about: dict[str, Any] = {"interactive": interactive}
    if spec.get("provideClusterInfo"):
        about["cluster"] = {name: cluster[name] for name in CLUSTER_FIELDS if cluster.get(name)}
        for extension in cluster.get("extensions") or ():
            if extension.get("name") == f"{GROUP}/exec":
                about["cluster"]["config"] = extension.get("extension")
    return msgspec.json.encode({"apiVersion": spec.get("apiVersion"), "kind": "ExecCredential", "spec": about}).decode()


def _read(command: str, version: str, output: bytes) -> Status:
    try:
        credential = msgspec.json.decode(output, type=_Credential)
    except UNDECODABLE as error:
        raise CredentialsError(f"the output of {command} is not an ExecCredential: {error}") from error
    if (credential.api_version, credential.kind) != (version, "ExecCredential"):
        printed = f"{credential.api_version} {credential.kind}"
        raise CredentialsError(f"{command} printed {printed}, expected {version} ExecCredential")
    if credential.status is None or not credential.status.token:
        certificate = credential.status is not None and credential.status.client_certificate_data
        raise CredentialsError(
            f"{command} returned {'a certificate, but only tokens are supported' if certificate else 'no token'}"
        )
    return credential.status
