"""Credential plugins of a kubeconfig: their input, their output, and the messages if they fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from queue_manager.engine.exec_plugin import CredentialsError
from queue_manager.engine.kubeconfig import RENEW_AFTER_SECONDS, load
from tests.frozen_time import freeze_time
from tests.unit.engine.test_rest_client import kubeconfig

VERSION = "client.authentication.k8s.io/v1"


def answer(**status: str) -> str:
    return json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})


def user(folder: Path, script: str, **spec: Any) -> dict[str, object]:
    """A user whose plugin is this script, beside the kubeconfig."""
    program = folder / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"exec": {"apiVersion": VERSION, "command": "./login", "interactiveMode": "Never", **spec}}


async def test_the_path_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    script = (
        """printf '{"apiVersion":"%s","kind":"ExecCredential","status":{"token":"%s"}}' """ + f'{VERSION} "$1-$REGION"'
    )
    who = user(tmp_path, script, args=["get-token"], env=[{"name": "REGION", "value": "north"}])
    assert await load(kubeconfig(tmp_path, {}, who)).authorization() == "Bearer get-token-north"


async def test_cluster_info_is_passed_if_requested(tmp_path: Path) -> None:
    who = user(tmp_path, f"echo \"$KUBERNETES_EXEC_INFO\" > {tmp_path}/received; echo '{answer(token='t')}'")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {"server": "http://x", "extensions": [extension]}
    await load(kubeconfig(tmp_path, cluster, who)).authorization()
    received = {"apiVersion": VERSION, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert json.loads((tmp_path / "received").read_text()) == received
    who["exec"]["provideClusterInfo"] = True  # type: ignore[index]
    await load(kubeconfig(tmp_path, cluster, who)).authorization()
    received["spec"] = {"interactive": False, "cluster": {"server": "http://x", "config": {"audience": "a"}}}
    assert json.loads((tmp_path / "received").read_text()) == received


@pytest.mark.parametrize("status", [{"expirationTimestamp": "2999-01-01T00:00:00Z"}, {}], ids=["a time", "no time"])
async def test_it_runs_again_when_its_token_is_refused(tmp_path: Path, status: dict[str, str]) -> None:
    who = user(tmp_path, f"echo x >> {tmp_path}/runs; echo '{answer(token='t', **status)}'")
    authorization = load(kubeconfig(tmp_path, {}, who)).authorization
    for _ in range(3):
        assert await authorization() == "Bearer t"
    assert (tmp_path / "runs").read_text() == "x\n"
    authorization.renew()
    await authorization()
    assert (tmp_path / "runs").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("status", "lasts"),
    [
        ({"expirationTimestamp": "2026-01-01T10:00:00Z"}, 10 * 3600),
        ({"expirationTimestamp": "2026-01-01T01:00:00+01:00"}, 1),  # already expired
        ({}, RENEW_AFTER_SECONDS),
    ],
    ids=["a time", "a time that has passed", "no time"],
)
async def test_a_token_is_used_until_it_expires(tmp_path: Path, status: dict[str, str], lasts: float) -> None:
    who = user(tmp_path, f"echo x >> {tmp_path}/runs; echo '{answer(token='t', **status)}'")
    authorization = load(kubeconfig(tmp_path, {}, who)).authorization
    with freeze_time("2026-01-01") as clock:  # the clock of the loop as well: it stands until the next line that ticks
        await authorization()
        clock.tick(lasts - 0.5)
        await authorization()
        assert (tmp_path / "runs").read_text() == "x\n"
        clock.tick(0.5)
        await authorization()
        assert (tmp_path / "runs").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("script", "spec", "says"),
    [
        ("echo 'log in first' >&2; exit 7", {}, "./login exited with 7"),
        ("echo hello", {}, "the output of ./login is not an ExecCredential: "),
        (f"echo '{answer()}'", {}, "./login returned no token"),
        (
            f"echo '{answer(clientCertificateData='c')}'",
            {},
            "./login returned a certificate, but only tokens are supported",
        ),
        (
            f"echo '{answer(token='t')}'",
            {"apiVersion": "client.authentication.k8s.io/v1beta1"},
            f"./login printed {VERSION} ExecCredential, expected client.authentication.k8s.io/v1beta1 ExecCredential",
        ),
        (
            "",
            {"command": "no-such", "installHint": "get it\nthere"},
            "no-such: No such file or directory; get it there",
        ),
    ],
)
async def test_a_failing_plugin_is_reported_with_its_cause(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, spec: dict[str, Any], says: str
) -> None:
    path = kubeconfig(tmp_path, {}, user(tmp_path, script, **spec))
    with pytest.raises(CredentialsError) as caught:
        await load(path).authorization()
    assert str(caught.value).startswith(f"{path}: the user of context 'here': {says}")
    assert capfd.readouterr().err == ("log in first\n" if "log in" in script else "")
