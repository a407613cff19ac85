"""The history in a real PostgreSQL: the store, and a `sluice manager` that writes to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete
from sqlalchemy.exc import ProgrammingError

from queue_manager.accounting import sql_tables
from queue_manager.accounting.database import HistoryUnavailable, open_for_reading, open_for_writing
from queue_manager.accounting.history_queries import HistoryFilter, read_history
from queue_manager.accounting.record_types import StepKind
from queue_manager.api.api_resources import JOBS
from queue_manager.engine.rest_client import RestClient
from tests.control_plane.conftest import ROOT, SLUICE
from tests.control_plane.history import postgresql
from tests.control_plane.manager.conftest import Start, kubeconfig, running_pods, scenario, start
from tests.control_plane.manager.process import ALL_JOBS
from tests.control_plane.manager.scenario import Scenario
from tests.unit.accounting import store_checks
from tests.waiting import until

__all__ = ["kubeconfig", "running_pods", "scenario", "start"]

pytestmark = pytest.mark.control_plane


@pytest.fixture
def server() -> Iterator[postgresql.Server]:
    with postgresql.socket_folder() as folder:
        running = postgresql.Server(Path(folder))
        running.start()
        yield running
        running.stop()


@pytest.mark.parametrize("check", store_checks.ALL, ids=lambda check: check.__name__)
def test_what_holds_for_every_database_holds_for_postgresql(
    check: Callable[[str], None], server: postgresql.Server
) -> None:
    check(server.url)


def test_the_roles_of_the_page_for_admins_write_and_only_read(server: postgresql.Server) -> None:
    """The statements of deploy/CLUSTER.md#history."""
    page = (ROOT / "deploy" / "CLUSTER.md").read_text()
    server.execute(page.partition("```sql\n")[2].partition("```")[0])
    writer, reader = (server.url_of(role, "sluice") for role in ("sluice_writer", "sluice_reader"))
    open_for_writing(writer).dispose()
    assert history(reader).returncode == 0
    engine = open_for_reading(reader)
    with pytest.raises(ProgrammingError, match="permission denied"), engine.begin() as connection:
        connection.execute(delete(sql_tables.jobs))
    engine.dispose()


def history(url: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [*SLUICE, "history", "--store", url, "-o", "json", *flags]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)


async def test_a_manager_writes_its_history_and_goes_on_while_the_database_is_away(
    scenario: Scenario, kubeconfig: Path, running_pods: None, start: Start, server: postgresql.Server, api: RestClient
) -> None:
    """What happens while the database is away is written once it is back; deleted Jobs stay in the history."""
    await start(kubeconfig, config=f"{ALL_JOBS}history: {{url: '{server.url}'}}\n")
    await scenario.queues()
    await scenario.submit("first")
    await scenario.until_finished("first")

    def kinds(name: str) -> list[StepKind]:
        [found] = read_history(server.url, HistoryFilter(namespace=scenario.namespace, name=name))
        return [step.kind for step in sorted(found.steps, key=lambda step: step.at)]

    def is_complete(name: str) -> bool:
        try:
            return StepKind.FINISHED in kinds(name)
        except (HistoryUnavailable, ValueError):  # the manager has not made the tables, or not written the Job
            return False

    await until(lambda: is_complete("first"), "the first Job is in the history")
    server.stop()
    await scenario.submit("second")
    await scenario.until_finished("second")
    await api.delete(JOBS, scenario.namespace, "second", propagation="Background")
    refused = history(server.url)
    assert refused.returncode == 3, refused
    assert "sluice history: postgresql" in refused.stderr
    server.start()
    await until(lambda: is_complete("second"), "the second Job is in the history")
    done = history(server.url, "-n", scenario.namespace)
    assert done.returncode == 0, done
    jobs = json.loads(done.stdout)
    assert [(job["name"], job["state"], job["attempts"]) for job in jobs] == [
        ("first", "Succeeded", 1),
        ("second", "Succeeded", 1),
    ]
    assert jobs[0]["cpuUsedSeconds"] is None  # a kubelet does not report it
    assert jobs[0]["cpuRequestedSeconds"] > 0
