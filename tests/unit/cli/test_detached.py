"""The arguments of a cluster in the background."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.cli.arguments import parser
from queue_manager.cli.detached import foreground_arguments, warnings_of
from queue_manager.cli.exit_codes import EXIT_NEVER
from queue_manager.cli.main import main

ALL = (
    "up --nodes 3 --cpu 2 --memory 4Gi --config /c.yaml --port 6443 --leave-running --log-format json "
    "--log-level info,kopf=debug"
)


@pytest.mark.parametrize("line", ["up", ALL])
def test_the_background_process_has_the_same_options_without_detach(line: str, tmp_path: Path) -> None:
    wanted = vars(parser().parse_args([*line.split(), "--data-dir", str(tmp_path)]))
    started = parser().parse_args([*line.split(), "--detach", "--wait", "5s"])
    assert vars(parser().parse_args(foreground_arguments(started, tmp_path))) == wanted


def test_waiting_in_the_foreground_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--wait"]) == EXIT_NEVER
    assert "--wait needs --detach" in capsys.readouterr().err


def test_the_warnings_of_the_start_are_those_of_the_log() -> None:
    written = (
        "! root         every Job can change",
        "               anything",
        "\u2714 serving      http://x",
        "",
        "Ready in 1 s. To use it:",
        "  sluice ps",
    )
    log = "\n".join(written)
    assert [*warnings_of(log)] == list(written[:2])
