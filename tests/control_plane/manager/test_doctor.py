"""`sluice doctor` on a real API server: the manager's Lease, its clock, and certificates."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, NAMESPACES
from queue_manager.api.component_names import CONFIG_MAP, NAMESPACE, PUBLIC_NAMESPACE
from queue_manager.configuration import loads
from queue_manager.configuration.config_map import KEY
from queue_manager.configuration.published_form import published_data
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.operator.config_publication import publish
from tests.control_plane.cleanup import forget_published
from tests.control_plane.conftest import ROOT, SLUICE
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS
from tests.control_plane.manager.service_account import write_kubeconfig
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

PLATFORM = {"NoManager", "ClockSkew", "ExpiredCertificate", "ExpiringCertificate"}
TIMES = "leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 1s"
CONFIG = f"{ALL_JOBS}leaderElection: {{resourceNamespace: {NAMESPACE}, resourceName: examined, {TIMES}}}\n"


async def findings(kubeconfig: Path) -> dict[str, Any]:
    """The findings about the platform by code; those about objects of other tests are left out."""
    command = [*SLUICE, "doctor", "--kubeconfig", str(kubeconfig), "-o", "json"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (0, 1, 2), done.stderr
    report = json.loads(done.stdout)
    assert report["notChecked"] == []
    return {problem["code"]: problem for problem in report["problems"] if problem["code"] in PLATFORM}


async def test_a_manager_that_leads_is_no_finding_and_one_that_was_killed_is(
    api: RestClient, plane: ControlPlane, tmp_path: Path, start: Start
) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", plane.url, {"token": plane.token}, plane)
    with contextlib.suppress(ApiError):  # an earlier test may have left it
        await api.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    await forget_published(api)
    await api.create(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": CONFIG_MAP}, "data": {KEY: CONFIG}})
    try:
        manager = await start(kubeconfig, config=CONFIG)
        assert await findings(kubeconfig) == {}
        await manager.kill()

        async def is_found() -> bool:
            return set(await findings(kubeconfig)) == {"NoManager"}

        await until(is_found, "the missing manager is found")
        found = (await findings(kubeconfig))["NoManager"]
        assert found["place"] == f"lease/examined -n {NAMESPACE}"
        assert found["severity"] == "error"
        await publish(api, PUBLIC_NAMESPACE, published_data(loads(CONFIG)))  # as a manager without leader election
        assert await findings(kubeconfig) == {}  # its managers need no Lease
    finally:
        await api.delete(CONFIG_MAPS, NAMESPACE, CONFIG_MAP)
