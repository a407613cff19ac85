"""--log-format and --log-level, and the options of Kueue's manager that mean the same."""

from __future__ import annotations

import logging

import pytest

from queue_manager.cli.arguments import parser
from queue_manager.cli.logging_options import settings_of
from queue_manager.engine.log import LogSettings

CHOSEN = {
    ("manager",): LogSettings("text", logging.INFO),
    ("up",): LogSettings("text", logging.WARNING),
    ("manager", "--log-format=json", "--log-level=debug"): LogSettings("json", logging.DEBUG),
    ("manager", "--log-level=error,kopf=info"): LogSettings("text", logging.ERROR, {"kopf": logging.INFO}),
    ("up", "--log-level=queue_manager.local=DEBUG"): LogSettings(
        "text", logging.WARNING, {"queue_manager.local": logging.DEBUG}
    ),
    ("manager", "--zap-encoder=json", "--zap-log-level=2"): LogSettings("json", logging.INFO),
    ("manager", "--zap-encoder=console", "--zap-log-level=3"): LogSettings("text", logging.DEBUG),
    ("manager", "--zap-log-level=panic"): LogSettings("text", logging.ERROR),
}


@pytest.mark.parametrize(
    ("arguments", "expected"), CHOSEN.items(), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_options_choose_format_and_levels(arguments: tuple[str, ...], expected: LogSettings) -> None:
    assert settings_of(parser().parse_args(arguments)) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "--log-level=loud",
        "--log-level==info",
        "--log-level=a=",
        "--log-format=xml",
        "--zap-encoder=text",
        "--zap-log-level=0",
        "--zap-log-level=trace",
    ],
)
def test_other_values_are_usage_errors(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["manager", wrong])
    assert wrong.partition("=")[2] in capsys.readouterr().err
