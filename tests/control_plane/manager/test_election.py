"""Two managers on a real API server: one leads, the other takes over when the leader is gone, and no pod is counted
twice.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml

from queue_manager.api.api_resources import LEASES
from queue_manager.engine.rest_client import RestClient
from queue_manager.operator.required_permissions import ALL, LEADER, rule, rules
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS, Manager, refusal
from tests.control_plane.manager.proxy import Proxy
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.server import ControlPlane
from tests.waiting import SECONDS

pytestmark = [pytest.mark.control_plane, pytest.mark.usefixtures("running_pods")]


EXPIRES_SOON = "leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 1s"
OUTLASTS_THE_TEST = f"leaseDuration: {2 * SECONDS:.0f}s, renewDeadline: {SECONDS:.0f}s, retryPeriod: 1s"


def config(namespace: str, times: str = EXPIRES_SOON) -> str:
    return f"{ALL_JOBS}leaderElection: {{resourceNamespace: {namespace}, {times}}}\n"


@pytest.fixture
async def kubeconfigs(api: RestClient, namespace: str, plane: ControlPlane, tmp_path: Path) -> list[Path]:
    """The kubeconfigs of two managers, each in a folder of its own."""
    token, _ = await (await account(api, namespace, [*rules(ALL), rule(LEADER)])).token()
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    return [write_kubeconfig(folder / "kubeconfig", plane.url, {"token": token}, plane) for folder in folders]


@pytest.fixture
def times() -> str:
    return EXPIRES_SOON


@pytest.fixture
async def pair(scenario: Scenario, kubeconfigs: list[Path], start: Start, times: str) -> tuple[Manager, Manager]:
    """A leader that runs three Jobs, and a follower that waits."""
    first = await start(kubeconfigs[0], config=config(scenario.namespace, times))
    second = await start(kubeconfigs[1], config=config(scenario.namespace, times), until="waiting: ")
    await scenario.queues()
    await scenario.submit("a", parallelism=2, completions=4)
    await scenario.until_admitted("a")
    for name in ("b", "c"):
        await scenario.submit(name, parallelism=2, completions=4)
    return first, second


async def holder(scenario: Scenario) -> str:
    lease = await scenario.api.get(LEASES, scenario.namespace, "c1f6bfd2.kueue.x-k8s.io")
    return str(lease["spec"]["holderIdentity"])


async def all_done(scenario: Scenario) -> None:
    await scenario.until_finished("a", "b", "c")
    for name in ("a", "b", "c"):
        assert (await scenario.job(name))["status"]["succeeded"] == 4
        assert len(await scenario.pods(name)) == 4


@pytest.mark.parametrize("times", [OUTLASTS_THE_TEST], ids=[""])
async def test_a_follower_is_ready_and_takes_over_at_once_when_the_leader_stops(
    scenario: Scenario, pair: tuple[Manager, Manager]
) -> None:
    """Long before the Lease expires."""
    first, second = pair
    leader = await holder(scenario)
    assert second.lines[-1] == f"waiting: {leader} holds the lease {scenario.namespace}/c1f6bfd2.kueue.x-k8s.io"
    assert await second.get("/readyz") == (200, "ok\n")
    assert 'replica_role="leader"' in (await first.get("/metrics"))[1]
    assert 'replica_role="leader"' not in (await second.get("/metrics"))[1]
    status = 'leader_election_master_status{name="c1f6bfd2.kueue.x-k8s.io"}'
    assert (await first.metric(status), await second.metric(status)) == (1, 0)
    assert f"{status} 0.0" in (await second.get("/metrics"))[1]
    await first.stop()
    await second.read_until("ready", SECONDS)
    assert await holder(scenario) not in ("", leader)
    assert await second.metric(status) == 1
    await all_done(scenario)


async def test_the_follower_takes_over_when_the_leader_is_killed(
    scenario: Scenario, pair: tuple[Manager, Manager]
) -> None:
    first, second = pair
    await first.kill()
    await second.read_until("ready", SECONDS)
    await all_done(scenario)


async def test_a_leader_that_was_paused_stands_for_election_again(
    scenario: Scenario, pair: tuple[Manager, Manager]
) -> None:
    """It waits for the other manager and takes over after it; its delayed writes create no pod twice."""
    first, second = pair
    first.process.send_signal(signal.SIGSTOP)
    await second.read_until("ready", SECONDS)
    first.process.send_signal(signal.SIGCONT)
    await first.read_until("lost the lease", SECONDS)
    assert first.lines[-1].endswith("; becomes a candidate again")
    await first.read_until("waiting: ", SECONDS)
    assert await first.get("/readyz") == (200, "ok\n")
    assert 'replica_role="leader"' not in (await first.get("/metrics"))[1]
    await all_done(scenario)
    await second.stop()
    await first.read_until("is the leader again", SECONDS)
    await scenario.submit("d", parallelism=2, completions=4)
    await scenario.until_finished("d")
    assert len(await scenario.pods("d")) == 4
    assert 'replica_role="leader"' in (await first.get("/metrics"))[1]


async def test_losing_the_lease_in_a_stall_does_not_end_the_process(
    scenario: Scenario, kubeconfigs: list[Path], proxy: Proxy, start: Start
) -> None:
    token = yaml.safe_load(kubeconfigs[0].read_text())["users"][0]["user"]["token"]
    through = write_kubeconfig(kubeconfigs[0], proxy.url, {"token": token})
    manager = await start(through, config=config(scenario.namespace))
    await scenario.queues()
    for name in ("a", "b", "c"):
        await scenario.submit(name, parallelism=2, completions=4)
        await scenario.until_admitted(name)
        proxy.flows.clear()
        await manager.read_until("lost the lease", SECONDS)
        proxy.flows.set()
        await manager.read_until("is the leader again", SECONDS)
    await all_done(scenario)
    assert manager.process.returncode is None


async def test_a_manager_without_rights_on_the_lease_reports_it(
    scenario: Scenario, kubeconfig: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(config(scenario.namespace))
    said = await refusal("--config", str(tmp_path / "config.yaml"), kubeconfig=kubeconfig)
    what = "get, create, update leases.coordination.k8s.io"
    assert said == f"missing permissions in namespace {scenario.namespace}: {what}; bind a Role that grants them"
