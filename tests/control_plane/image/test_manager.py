"""The image's `sluice manager` as a restricted pod would run it, against the real API server."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from queue_manager.api.api_resources import LEASES
from queue_manager.engine.rest_client import RestClient
from queue_manager.operator.required_permissions import ALL, LEADER, rule, rules
from tests.control_plane.conftest import ROOT
from tests.control_plane.image import container
from tests.control_plane.image.container import SERVICE_ACCOUNT, Surroundings
from tests.control_plane.image.oci_layout import Image
from tests.control_plane.image.pod_runner import write_folder
from tests.control_plane.manager.process import Manager
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.manager.service_account import account
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = [pytest.mark.control_plane, pytest.mark.image]


@pytest.fixture
async def pod_account(api: RestClient, namespace: str, plane: ControlPlane, tmp_path: Path) -> Path:
    """The files of the manager's service account, as the kubelet mounts them."""
    who = await account(api, namespace, [*rules(ALL), rule(LEADER)])
    token, _ = await who.token()
    return write_folder(tmp_path / "account", {"token": token, "namespace": namespace}, plane.ca)


@pytest.fixture
async def manager(
    image: Image, bundle: Path, pod_account: Path, plane: ControlPlane, tmp_path: Path
) -> AsyncIterator[Manager]:
    """A container of the image that has become ready; its servers get free ports of the host."""
    server = urlsplit(plane.url)
    env = [f"KUBERNETES_SERVICE_HOST={server.hostname}", f"KUBERNETES_SERVICE_PORT={server.port}"]
    program = [*image.program(), "--metrics-port", "0", "--visibility-port", "0"]
    given = Surroundings(env, {SERVICE_ACCOUNT: pod_account})
    command = container.command(bundle, image, program, given)
    manager = await Manager.run(command, tmp_path / "manager.log")
    yield manager
    await manager.kill()


def first_process(bundle: Path) -> Path:
    """The folder in /proc of the container's first process."""
    command = [*container.runc(bundle), "state", bundle.name]
    state = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return Path("/proc") / str(state["pid"])


async def test_a_job_is_admitted_by_the_image_in_a_restricted_container(
    manager: Manager, api: RestClient, namespace: str
) -> None:
    """It logs in with its service account, leads, serves both APIs, and exits with 0 on SIGTERM."""
    assert await manager.get("/readyz") == (200, "ok\n")
    assert any(re.fullmatch(r"serving https://\S+/apis/visibility\S*", line) for line in manager.lines), manager.lines
    leases = await api.list(LEASES, namespace)
    assert [lease["metadata"]["name"] for lease in leases] == ["c1f6bfd2.kueue.x-k8s.io"]
    scenario = Scenario(api, namespace, until)
    await scenario.queues()
    await scenario.submit("a")
    await scenario.until_admitted("a")
    await manager.stop()


async def test_it_runs_as_an_ordinary_user_on_a_read_only_root(manager: Manager, bundle: Path) -> None:
    process = first_process(bundle)
    status = dict(re.findall(r"^(\w+):\t(.*)$", (process / "status").read_text(), re.MULTILINE))
    assert status["Uid"].split() == status["Gid"].split() == ["65532"] * 4
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
    writable = {fields[4] for fields in mounts if "rw" in fields[5].split(",")}
    assert writable == {"/proc", "/dev", "/dev/shm"}
    await manager.stop()


def test_the_image_prints_its_version(image: Image, bundle: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    done = subprocess.run(
        container.command(bundle, image, image.program("--version")),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"sluice {version} (commit "), done.stdout
