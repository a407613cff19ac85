"""`sluice check-config`: what it says of a valid configuration beside its defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

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
