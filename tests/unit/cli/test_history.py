"""What `sluice history` and `sluice report` print."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import yaml

from queue_manager.accounting.history_store import open_store
from queue_manager.accounting.job_summary import JobSummary, summary
from queue_manager.accounting.record_types import StepKind
from queue_manager.accounting.usage_report import UsageRow
from queue_manager.cli.arguments import parser
from queue_manager.cli.exit_codes import EXIT_ERROR, EXIT_NEVER
from queue_manager.cli.fitted_table import FittedTable
from queue_manager.cli.history import StepRow, columns, pod_end
from queue_manager.cli.main import main
from queue_manager.cli.output import columns_of
from queue_manager.cli.report import hours, wasted
from queue_manager.local.kubeconfig_file import write_kubeconfig
from queue_manager.local.storage.data_directory import CERTIFICATE
from tests.unit.accounting.history_samples import admitted, finished, job, pod, step

BEHAVIOUR = Path(__file__).parents[3] / "queue_manager" / "BEHAVIOUR.md"
ALWAYS = ["--since", "2020-01-01"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    store = open_store(url)
    store.write([job("j1"), admitted(5), finished(65), pod(cpu_seconds=30.0, peak_memory_bytes=3 << 20)])
    failed = [job("j2", 10, user="bob"), admitted(20, of="j2"), finished(80, "BackoffLimitExceeded", of="j2")]
    store.write([*failed, pod("p2", of="j2", exit_code=3, phase="Failed")])
    store.close()
    return url


def test_the_keys_are_documented() -> None:
    chapters = BEHAVIOUR.read_text().split("\n### ")
    [history] = [text for text in chapters if text.startswith("Q120 ")]
    [report] = [text for text in chapters if text.startswith("Q121 ")]
    keys = {field.encode_name for kind in (JobSummary, StepRow) for field in msgspec.structs.fields(kind)}
    assert [key for key in sorted(keys) if key not in history] == []
    assert [field.encode_name for field in msgspec.structs.fields(UsageRow) if field.encode_name not in report] == []


def test_the_waits_of_a_report_have_names_that_differ(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--store", url, *ALWAYS, "-o", "csv"]) == 0
    row, *_ = csv.DictReader(io.StringIO(capsys.readouterr().out))
    waits = [key for key in row if "wait" in key.lower()]
    assert waits == [f"{kind}P{percent}Seconds" for kind in ("firstWait", "waited") for percent in (50, 90)]


def test_a_table_has_state_cause_and_use_of_each_job(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--store", url, *ALWAYS]) == 0
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["SUBMITTED", "NAME", "STATE", "USER"]
    assert first.split()[2:] == ["job-j1", "Succeeded", "anna", "1", "5s", "1m00s", "30s", "3Mi"]
    assert second.endswith("?       ?  exit 3; BackoffLimitExceeded")


def test_the_wide_table_has_columns_that_say_the_same_of_all(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--store", url, "-o", "wide", *ALWAYS]) == 0
    assert {"NAMESPACE", "USER", "QUEUE"} <= set(capsys.readouterr().out.splitlines()[0].split())


def test_a_row_of_today_without_cause_is_one_line_of_80_characters() -> None:
    now = datetime.now(UTC)
    begun = [msgspec.structs.replace(admitted(0), at=now), msgspec.structs.replace(finished(0), at=now)]
    done = summary(job(submitted_at=now), begun, [pod(cpu_seconds=30.0, peak_memory_bytes=3 << 20)], now)
    lines = list(FittedTable(columns_of("", columns("", [done, done])), [done, done]).lines(80))
    assert lines[-1] == lines[-2]
    assert lines[-1].split()[1:3] == ["job-j1", "Succeeded"]
    assert max(map(len, lines)) <= 81  # with the end of the line


@pytest.mark.parametrize(
    ("amount", "text"),
    [(6.9e-05, "0"), (0.000694, "0.001"), (0.01234, "0.012"), (1.2345, "1.23"), (999.7, "1000"), (12345.6, "12346")],
)
def test_hours_have_few_digits_and_no_exponent(amount: float, text: str) -> None:
    assert hours(amount) == text


def test_all_machine_formats_have_the_same_keys_and_rows(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for form in ("json", "yaml", "csv"):
        assert main(["report", "--by", "user", "--store", url, "-o", form, *ALWAYS]) == 0
        found[form] = capsys.readouterr().out
    rows = json.loads(found["json"])
    assert [row["user"] for row in rows] == ["anna", "bob"]
    assert yaml.safe_load(found["yaml"]) == rows
    table = list(csv.DictReader(io.StringIO(found["csv"])))
    assert [{key: str("" if value is None else value) for key, value in row.items()} for row in rows] == table


def test_failed_jobs_of_a_user_are_chosen(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    def names(*flags: str) -> list[str]:
        assert main(["history", "--store", url, "-o", "json", *ALWAYS, *flags]) == 0
        return [row["name"] for row in json.loads(capsys.readouterr().out)]

    assert names() == ["job-j1", "job-j2"]
    assert names("--failed") == names("--user", "bob") == ["job-j2"]
    assert names("-q", "lq") == ["job-j1", "job-j2"]
    assert names("-q", "cq/cq", "--until", "2026-01-01T12:00:05+00:00") == ["job-j1"]
    assert names("-q", "lq", "--user", "carl") == []


@pytest.mark.parametrize("command", ["history", "report"])
@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("-q", "nosuch"), "the history has no Job of LocalQueue nosuch"),
        (("-q", "lq", "-n", "team-b"), "the history has no Job of LocalQueue lq in namespace team-b"),
        (("-q", "cq/nosuch"), "the history has no Job of ClusterQueue nosuch"),
        (("--store", "mysql://host/db"), "a history is in sqlite:///PATH or postgresql://HOST/DATABASE, not in mysql"),
        (("--store", "history.db"), "the URL of a history is sqlite:///PATH or postgresql://HOST/DATABASE"),
    ],
)
def test_a_queue_or_store_that_cannot_be_meant_is_a_wrong_request(
    command: str, flags: tuple[str, ...], text: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--store", url, *flags, *ALWAYS]) == EXIT_NEVER
    assert capsys.readouterr() == ("", f"sluice {command}: {text}\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-q", "researhc"], "Job of LocalQueue researhc; did you mean research?"),
        (["-q", "cq/gpuz"], "Job of ClusterQueue gpuz; did you mean gpus?"),
        (["trian"], "Job trian; did you mean train?"),
    ],
)
def test_a_mistyped_name_is_answered_with_a_recent_one(
    flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, now = f"sqlite:///{tmp_path / 'history.db'}", datetime.now(UTC)
    store = open_store(url)
    recent = job("j1", name="train", queue="research", submitted_at=now)
    store.write([recent, msgspec.structs.replace(admitted(1), at=now, cluster_queue="gpus")])
    store.write([job("j2", name="trian2", queue="researhc2"), finished(9, of="j2")])  # of long ago
    store.close()
    assert main(["history", "--store", url, *flags]) == EXIT_NEVER
    assert capsys.readouterr().err == f"sluice history: the history has no {said}\n"


def test_a_queue_without_jobs_in_the_chosen_time_is_no_mistake(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for queue in ("lq", "cq/cq"):
        assert main(["history", "--store", url, "-q", queue]) == 0
        assert capsys.readouterr().out.startswith("no such Jobs since ")


def test_a_deactivated_job_counts_as_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    store = open_store(url)
    store.write([job("j1"), step(StepKind.DEACTIVATED, 9, reason="RequeuingLimitExceeded")])
    store.write([job("j2"), step(StepKind.DELETED, 9, 0, of="j2")])
    store.close()
    assert main(["history", "--store", url, "-o", "json", *ALWAYS, "--failed"]) == 0
    assert [(row["name"], row["state"]) for row in json.loads(capsys.readouterr().out)] == [("job-j1", "Deactivated")]


def test_a_name_is_that_of_the_newest_job_however_old(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    store = open_store(url)
    store.write([job("j1", name="train"), finished(9), job("j2", 10, name="train")])
    store.write([step(StepKind.DELETED, 19, 0, of="j2")])
    store.close()
    assert main(["history", "train", "-n", "team-a", "--store", url, "-o", "json"]) == 0
    assert [row["step"] for row in json.loads(capsys.readouterr().out)] == ["Submitted", "Deleted"]
    assert main(["history", "--store", url, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []  # not of the last seven days


def test_an_older_job_of_a_name_is_chosen_by_its_uid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, old, new = f"sqlite:///{tmp_path / 'history.db'}", "0f0f0f0f-aaaa", "0f0f0f0f-bbbb"
    store = open_store(url)
    store.write([job(old, name="train"), finished(9, of=old), job(new, 10, name="train")])
    store.close()

    def says(name: str, code: int = 0) -> tuple[str, str]:
        assert main(["history", name, "--store", url]) == code
        return capsys.readouterr()

    assert "0f0f0f0f" in says("train")[1]
    for name in (old, "0f0f0f0f-a", f"team-a/{old}"):
        out, err = says(name)
        assert ("Finished" in out, err) == (True, "")
    assert f"2 Jobs begin with 0f0f0f0f: {old}, {new}" in says("0f0f0f0f", EXIT_NEVER)[1]
    assert "no Job 0f0f0f0" in says("0f0f0f0", EXIT_NEVER)[1]
    assert main(["history", "--store", url, "-o", "wide", *ALWAYS]) == 0
    assert "UID" in capsys.readouterr().out.splitlines()[0]


def test_the_steps_of_a_job_have_no_names(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "team-a/job-j2", "--store", url, "-o", "name"]) == EXIT_NEVER
    assert "the steps of a Job have no names" in capsys.readouterr().err


def test_one_job_is_told_step_by_step(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "team-a/job-j2", "--store", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["Submitted", "Admitted", "PodFailed", "Finished"]
    assert "cq, default: 2 cpu, 1Mi" in lines[2]
    assert "p2 on n1: exit 3, cpu ?, memory ?" in lines[3]


@pytest.mark.parametrize(("job", "store", "code"), [("none", "", EXIT_NEVER), ("j", "sqlite:////none", EXIT_ERROR)])
def test_what_is_not_there_is_refused(
    job: str, store: str, code: int, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", job, "--store", store or url]) == code
    assert capsys.readouterr().err.startswith("sluice history: ")


def test_the_history_of_a_named_kubeconfig_is_the_one_beside_it(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/none")
    write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1", "token", "certificate")
    (tmp_path / CERTIFICATE).touch()
    flags = ("-o", "name", *ALWAYS)
    assert main(["history", "--store", url, *flags]) == 0
    stored = capsys.readouterr().out
    assert main(["history", "--kubeconfig", str(tmp_path / "kubeconfig"), *flags]) == 0
    assert (capsys.readouterr().out, stored.count("job/")) == (stored, 2)
    assert main(["report", "--kubeconfig", str(tmp_path / "none")]) == EXIT_ERROR
    assert "no kubeconfig found" in capsys.readouterr().err


def test_a_report_leaves_out_what_rounds_to_nothing() -> None:
    numbers = {field.encode_name: 0 for field in msgspec.structs.fields(UsageRow)}
    row = msgspec.convert({**numbers, **dict.fromkeys(("queue", "user", "flavor", "namespace"), "")}, UsageRow)
    mixed = msgspec.structs.replace(row, wasted_failed_cpu_hours=0.0001, wasted_other_cpu_hours=0.5)
    assert wasted(mixed) == "0.5 other"
    assert wasted(row) == "-"


def test_a_report_says_which_jobs_were_never_admitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    store = open_store(url)
    free = msgspec.structs.replace(admitted(20, of="j2"), flavor="")
    store.write([job("j1"), job("j2", user="bob"), free, job("j3", user="carl"), admitted(20, of="j3")])
    store.close()
    assert main(["report", "--store", url, *ALWAYS, "--by", "user,flavor"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    cells = [[cell.strip() for cell in row.split("  ") if cell.strip()][:2] for row in rows]
    assert cells == [["anna", "not admitted"], ["bob", "-"], ["carl", "default"]]


def test_a_report_by_unknown_groups_is_refused() -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["report", "--by", "colour"])
    args: argparse.Namespace = parser().parse_args(["report", "--by", "flavor, queue"])
    assert args.by == ("flavor", "queue")


def test_a_held_job_waits_and_has_no_tries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    store = open_store(url)
    store.write([job("j1"), step(StepKind.HELD, 1, reason="Suspended")])
    store.close()
    assert main(["history", "--store", url, *ALWAYS]) == 0
    [_, row] = capsys.readouterr().out.splitlines()
    [state, tries, waited, *rest] = row.split()[3:]
    assert (state, tries, rest) == ("Held", "0", ["-", "?", "?", "Suspended"])
    assert re.fullmatch(r"\d+d\d+h", waited)


def test_a_container_that_never_started_has_no_exit_code() -> None:
    unknown = pod(phase="Deleted", exit_code=137, reason="ContainerStatusUnknown")
    assert pod_end(unknown) == "no exit code (ContainerStatusUnknown)"
    assert pod_end(pod(phase="Deleted", exit_code=143, reason="Error")) == "exit 143 (Error)"
