"""`sluice check-config`: what it says of a valid configuration beside its defaults."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import yaml

from queue_manager.cli.machine_formats import SCHEMA_VERSION
from queue_manager.cli.main import main

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def said(section: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Standard error, without the name of the file, for a file that is valid."""
    file = folder / "config.yaml"
    file.write_text(f"{HEAD}{section}\n")
    assert main(["check-config", str(file)]) == 0
    out, error = capsys.readouterr()
    assert out.startswith(f"# {file} is valid.")
    return [line.removeprefix(str(file)) for line in error.splitlines()]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("webhook: {port: 9555}", "webhook.port: 9555; an installation has port 9443; "),
        ("internalCertManagement: {enable: false}", "internalCertManagement.enable: false; an installation has true, "),
        ("internalCertManagement: {webhookSecretName: s}", "internalCertManagement.webhookSecretName: s; an "),
    ],
)
def test_fields_that_an_installation_does_not_have_are_named(
    section: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [line] = said(section, tmp_path, capsys)
    assert line.startswith(f":3: {problem}")
    assert line.endswith(" (`sluice install --config` refuses it)")


@pytest.mark.parametrize("section", ["webhook: {port: 9443}", "manageJobsWithoutQueueName: true", ""])
def test_nothing_is_said_of_a_configuration_that_fits(
    section: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(section, tmp_path, capsys) == []


def printed(form: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, int]:
    """Standard output, without the folder, and the exit code. Nothing is written to standard error."""
    file = folder / "config.yaml"
    file.write_text(f"{HEAD}{text}\n")
    code = main(["check-config", str(file), "-o", form])
    out, error = capsys.readouterr()
    assert error == ""
    return out.replace(f"{folder}/", ""), code


ALL_KINDS = "webhook: {port: 9555}\nwaitForPodsReady: {timeout: 5s}\nmultiKueue: {origin: here}"


def test_a_program_gets_all_findings_and_the_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, code = printed("json", ALL_KINDS, tmp_path, capsys)
    record = json.loads(out)
    assert (code, record["schemaVersion"], record["valid"]) == (0, SCHEMA_VERSION, True)
    places = [(each["code"], each["file"], each["line"], each["field"]) for each in record["problems"]]
    assert places == [
        ("Ignored", "config.yaml", None, "multiKueue"),
        ("NotInstallable", "config.yaml", 3, "webhook.port"),
        ("Advice", "config.yaml", 4, "waitForPodsReady.timeout"),
    ]
    assert record["problems"][0]["message"] == "Sluice does not dispatch to other clusters"
    assert record["configuration"]["waitForPodsReady"]["requeuingStrategy"]["backoffBaseSeconds"] == 60
    assert yaml.safe_load(printed("yaml", ALL_KINDS, tmp_path, capsys)[0]) == record
    (tmp_path / "again.json").write_text(json.dumps(record["configuration"]))
    assert main(["check-config", str(tmp_path / "again.json")]) == 0


def test_a_program_gets_the_mistakes_of_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "waitForPodsReady:\n  timeout: 5x\nfoo: 1"
    out, code = printed("json", wrong, tmp_path, capsys)
    record = json.loads(out)
    assert (code, record["valid"], record["configuration"]) == (2, False, None)
    assert [(each["code"], each["line"], each["field"]) for each in record["problems"]] == [
        ("Mistake", 4, "waitForPodsReady.timeout"),
        ("Mistake", 5, "foo"),
    ]
    rows = list(csv.DictReader(io.StringIO(printed("csv", wrong, tmp_path, capsys)[0])))
    assert [(row["file"], row["line"], row["field"]) for row in rows] == [
        ("config.yaml", "4", "waitForPodsReady.timeout"),
        ("config.yaml", "5", "foo"),
    ]
    assert printed("name", wrong, tmp_path, capsys) == ("waitForPodsReady.timeout\nfoo\n", 2)


def test_a_table_and_a_wide_one_are_the_text_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{HEAD}{ALL_KINDS}\n")
    said = []
    for options in ([], ["-o", "table"], ["-o", "wide"]):
        assert main(["check-config", str(file), *options]) == 0
        said.append(capsys.readouterr())
    assert said[0].out.startswith(f"# {file} is valid.")
    assert said[1:] == said[:1] * 2


WAITS = "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: 3}"


@pytest.mark.parametrize(
    ("section", "lines"),
    [
        (f"{WAITS}, timeout: 5s}}", [("timeout", "5s is shorter than the wait before a failed pod is replaced ")]),
        (f"{WAITS}, recoveryTimeout: 4s}}", [("recoveryTimeout", "4s is shorter than the wait before a failed pod ")]),
        (f"{WAITS}, recoveryTimeout: 0s}}", []),
        (f"{WAITS}, timeout: 5s}}\njobController: {{podFailureBackoffBase: 1s}}", []),
        (
            "waitForPodsReady: {requeuingStrategy: {backoffBaseSeconds: 100, backoffMaxSeconds: 10}}",
            [("requeuingStrategy.backoffMaxSeconds", "10 is less than backoffBaseSeconds (100): each wait is 10s")],
        ),
    ],
)
def test_values_that_are_hardly_meant_are_named(
    section: str, lines: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(section, tmp_path, capsys)
    assert len(found) == len(lines)
    for line, (field, text) in zip(found, lines, strict=True):
        assert line.startswith(f":3: waitForPodsReady.{field}: {text}")
        assert line.endswith(" (advice)")
