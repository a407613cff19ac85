"""How `sluice doctor` measures clocks, reads certificates, and prints."""

from __future__ import annotations

import base64
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_manager.cli.doctor import INDENT, Report, exit_code, grouped, paragraph, show, summary
from queue_manager.cli.doctor_reading import ServerClock, bundled_certificates, latest_end, managers_clock
from queue_manager.cli.lease_reading import lease_facts
from queue_manager.engine.certificates import VALID, issue
from queue_manager.visibility.diagnosis.problem import error, warning

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ERROR = error("Code", "localqueue/x -n default", "A sentence that is long enough to wrap.", "kubectl get x")
WARNING = warning("Other", "crd/y", "Short.", "kubectl get y")


def test_the_exit_code_is_that_of_the_worst_finding() -> None:
    assert [exit_code([]), exit_code([WARNING]), exit_code([WARNING, ERROR])] == [0, 1, 2]
    reports = Report([], []), Report([ERROR, WARNING, WARNING], [])
    assert [summary(report) for report in reports] == ["nothing found", "1 error, 2 warnings"]


def test_the_last_line_says_that_something_was_not_checked() -> None:
    reports = Report([], ["pods (forbidden)"]), Report([WARNING], ["pods (forbidden)"])
    assert [summary(report) for report in reports] == [
        "nothing found in what could be checked",
        "0 errors, 1 warning in what could be checked",
    ]
    assert [summary(report, is_checked=False) for report in reports] == [
        "nothing could be checked",
        "0 errors, 1 warning; nothing else could be checked",
    ]
    assert [exit_code(report.problems, is_checked=False) for report in reports] == [3, 1]


def test_deactivated_jobs_are_counted_and_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    show(Report([], [], 2), is_checked=True)
    assert capsys.readouterr().out == "deactivated: 2 Jobs; see why: sluice deactivated\nnothing found\n"


def test_what_was_not_checked_is_one_line_per_cause() -> None:
    assert list(grouped(["jobs (forbidden)", "cohorts (forbidden or absent)", "pods (forbidden)", "nodes"])) == [
        "jobs, pods (forbidden)",
        "cohorts (forbidden or absent)",
        "nodes",
    ]


def test_no_line_of_a_finding_is_wider_than_the_terminal() -> None:
    lines = list(paragraph(ERROR, 40))
    assert max(map(len, lines)) <= 40
    assert lines[0] == "  where  localqueue/x -n default"
    assert lines[-1] == "  fix    kubectl get x"


PATCH = '[{"op":"replace","path":"/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota","value":"4"}]'
SED = "sed 's/^  clusterQueue: .*/  clusterQueue: ml/'"  # a colon is no end of the command there
LONG = (
    f"kubectl get localqueue ml -n default -o yaml | {SED} | kubectl replace --force -f -",
    f"kubectl patch clusterqueue team-a-batch --type json -p '{PATCH}'",
    "kubectl uncordon " + " ".join(f"worker-{i}.example.internal" for i in range(9)),
)


@pytest.mark.parametrize("command", LONG)
def test_a_long_command_fits_80_columns_and_a_shell_reads_it_as_one(command: str) -> None:
    lines = list(paragraph(error("Code", "x", "Short.", command), 80))
    assert max(map(len, lines)) <= 80
    fix = "\n".join(line[INDENT:] for line in lines[2:])
    assert [word.replace("\n", "") for word in shlex.split(fix)] == shlex.split(command)


def test_each_of_several_commands_has_its_line() -> None:
    lines = list(paragraph(error("Code", "x", "Short.", "kubectl get nodes; kubectl get pods"), 80))
    assert lines[2:] == ["  fix    kubectl get nodes", "         kubectl get pods"]


def test_the_most_exact_of_several_measurements_of_a_clock_counts() -> None:
    clock = ServerClock()
    clock.observe("no date", NOW, NOW)
    assert clock.facts is None
    clock.observe("Thu, 01 Jan 2026 11:59:00 GMT", NOW, NOW + timedelta(seconds=4))
    clock.observe("Thu, 01 Jan 2026 11:59:00 GMT", NOW, NOW + timedelta(seconds=1))
    assert clock.facts is not None
    assert clock.facts.ahead == timedelta(seconds=60)
    assert clock.facts.uncertainty == timedelta(seconds=1)


def test_the_leader_s_clock_is_compared_with_the_time_of_its_write() -> None:
    fields = {"f:spec": {"f:renewTime": {}}}
    lease = {
        "metadata": {
            "name": "l",
            "namespace": "n",
            "managedFields": [{"time": "2026-01-01T12:00:00Z", "fieldsV1": fields}, {"time": "2026-01-01T13:00:00Z"}],
        },
        "spec": {"holderIdentity": "m", "renewTime": "2026-01-01T12:00:30.500000Z", "leaseDurationSeconds": 15},
    }
    clock = managers_clock(lease)
    assert clock is not None
    assert (clock.owner, clock.ahead) == ("manager m", timedelta(seconds=30.5))
    assert lease_facts(lease).seconds == 15
    assert managers_clock({"metadata": {"name": "l", "namespace": "n"}}) is None


def test_a_bundle_holds_as_long_as_its_last_certificate() -> None:
    old, new = issue("s", ["localhost"], NOW), issue("s", ["localhost"], NOW + timedelta(days=9))
    assert latest_end((old.authority + new.authority).encode()) == NOW + timedelta(days=9) + VALID
    assert latest_end(b"no certificate") is None


def test_the_bundle_of_a_crd_is_examined_only_if_a_manager_renews_it() -> None:
    """The command of the finding restarts the managers, which write no caBundle beside another Service."""
    bundle = base64.b64encode(issue("s", ["localhost"], NOW).authority.encode()).decode()

    def crd(service: str) -> dict[str, Any]:
        config = {"service": {"namespace": "kueue-system", "name": service}, "caBundle": bundle}
        return {"metadata": {"name": service}, "spec": {"conversion": {"webhook": {"clientConfig": config}}}}

    definitions = [crd("sluice-conversion-service"), crd("kueue-webhook-service")]
    assert [each.place for each in bundled_certificates("crd", definitions)] == ["crd/sluice-conversion-service"]
