"""The log of `sluice up` and of a manager that cannot start, as processes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from queue_manager.api.api_resources import JOBS
from tests.local.cluster.conftest import Up, sluice
from tests.local.cluster.work import ended, job

Start = Callable[..., Up]
DEBUG = ("--log-format=json", "--log-level=debug")
OPAQUE = "a-token-without-any-form-0123456789"


async def test_one_cause_leads_from_a_job_to_its_pod_and_no_line_has_the_token(start: Start) -> None:
    """The log is JSON on stderr; the command prints for people on stdout."""
    up = start(*DEBUG)
    async with up.client() as client:
        uid = (await client.create(JOBS, "default", job("quick", "true")))["metadata"]["uid"]
        await ended(client, "quick")
    (user,) = yaml.safe_load(up.kubeconfig.read_text())["users"]
    assert up.stop() == 0
    lines: list[dict[str, Any]] = [json.loads(line) for line in up.lines if line.startswith("{")]
    (admitted,) = [line for line in lines if line["msg"] == "admitted"]
    assert admitted["cause"].startswith(f"{uid}@")
    steps = [line for line in lines if line.get("cause") == admitted["cause"]]
    assert {"added", "synced", "admitted", "wrote"} <= {line["msg"] for line in steps}
    assert "pods" in {line["resource"] for line in steps if line["msg"] == "wrote"}
    assert not [line for line in up.lines if user["user"]["token"] in line]


def test_a_manager_that_cannot_start_says_so_in_json_without_its_token(tmp_path: Path) -> None:
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": OPAQUE}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    done = sluice("manager", "--kubeconfig", str(tmp_path / "kubeconfig"), *DEBUG)
    assert done.returncode == 3
    assert done.stdout == ""
    line = json.loads(done.stderr.splitlines()[-1])
    assert (line["level"], line["logger"]) == ("error", "queue_manager.cli.manager")
    assert re.search(r"127\.0\.0\.1:9", line["msg"])
    assert OPAQUE not in done.stderr
