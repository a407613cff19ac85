"""The lines of the log: their fields in both formats, levels, and what they must not contain."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest

from queue_manager.engine import log
from queue_manager.engine.cause_ids import CURRENT, CauseId
from queue_manager.engine.log import JsonFormatter, LogSettings, TextFormatter

A, B = CauseId("a", "1"), CauseId("b", "2")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Give the loggers of this process back as they were."""
    root = logging.getLogger()
    handlers, names = root.handlers[:], ("", *log.OURS, *log.LIBRARIES, "queue_manager.engine.rest_client")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    root.handlers[:] = handlers
    logging.captureWarnings(capture=False)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def logger(formatter: logging.Formatter) -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    made = logging.Logger("a.b")
    made.addHandler(handler)
    return made, stream


def test_a_line_of_text_ends_with_key_value_pairs() -> None:
    made, stream = logger(TextFormatter())
    made.warning("it %s", "failed", extra={"key": "default/x", "error": 'say "no"', "seconds": 0.25})
    assert stream.getvalue().endswith('Z WARNING a.b it failed key=default/x error="say \\"no\\"" seconds=0.250000\n')


def test_a_line_of_json_has_the_names_of_zap() -> None:
    made, stream = logger(JsonFormatter())
    made.warning("it %s", "failed", extra={"key": "default/x", "uid": "u", "count": 3})
    line = json.loads(stream.getvalue())
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "a.b",
        "msg": "it failed",
        "key": "default/x",
        "uid": "u",
        "count": 3,
    }


def test_the_time_is_utc_in_rfc_3339() -> None:
    record = logging.makeLogRecord({"created": 1_700_000_000.5, "msg": "x"})
    assert json.loads(JsonFormatter().format(record))["ts"] == "2023-11-14T22:13:20.500Z"
    assert TextFormatter().format(record).startswith("2023-11-14T22:13:20.500Z ")


def test_an_exception_is_an_error_and_a_stacktrace() -> None:
    made, stream = logger(JsonFormatter())
    try:
        raise OSError("no route")
    except OSError:
        made.exception("it failed")
    line = json.loads(stream.getvalue())
    assert line["error"] == "OSError: no route"
    assert line["stacktrace"].startswith("Traceback")
    assert stream.getvalue().count("\n") == 1


def test_a_line_has_the_cause_of_the_running_code() -> None:
    made, stream = logger(JsonFormatter())
    for cause in (None, A, A.joined(B)):
        token = CURRENT.set(cause)
        made.info("x")
        CURRENT.reset(token)
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert "cause" not in first
    assert (second["cause"], second.get("causes")) == ("a@1", None)
    assert (third["cause"], third["causes"]) == ("a@1", ["a@1", "b@2"])


def test_text_from_outside_begins_no_line_of_its_own() -> None:
    made, stream = logger(TextFormatter())
    made.warning("a\nb \x1b[31m", extra={"error": "c\nd"})
    assert stream.getvalue().endswith('a\\nb \\u001b[31m error="c\\nd"\n')
    assert stream.getvalue().count("\n") == 1


def test_what_json_cannot_express_is_text() -> None:
    made, stream = logger(JsonFormatter())
    made.warning("x", extra={"odd": {(1, 2): object}, "why": OSError("no")})
    assert json.loads(stream.getvalue())["why"] == "no"


def test_a_line_of_kopf_names_its_object_as_ours_do() -> None:
    made, stream = logger(JsonFormatter())
    reference = {"namespace": "ns", "name": "a", "uid": "u", "kind": "Job", "apiVersion": "batch/v1"}
    made.error("refused", extra={"k8s_ref": reference, "k8s_skip": False, "settings": object()})
    line = json.loads(stream.getvalue())
    assert (line["key"], line["uid"]) == ("ns/a", "u")
    assert line.keys() == {"level", "ts", "logger", "msg", "key", "uid"}


TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
SECRETS = {
    f"header Authorization: Bearer {TOKEN}": TOKEN,
    f"token {TOKEN}": TOKEN,
    "Authorization: bearer abcdef0123456789": "abcdef0123456789",
    "cannot connect to https://me:hunter2@proxy:3128/": "hunter2",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----": "MIIEowIBAAKCAQEA",
}


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
@pytest.mark.parametrize(("text", "secret"), SECRETS.items())
def test_what_looks_like_a_credential_is_masked(formatter: logging.Formatter, text: str, secret: str) -> None:
    made, stream = logger(formatter)
    made.error("failed", extra={"error": text})
    made.error("%s", text)
    try:
        raise ValueError(text)
    except ValueError:
        made.exception("raised")
    assert secret not in stream.getvalue()
    assert stream.getvalue().count(log.MASK) >= 3


def test_ordinary_text_is_not_masked() -> None:
    made, stream = logger(TextFormatter())
    made.error("Bearer or basic authentication at https://[::1]:6443/api?x=a@b, uid@12")
    assert log.MASK not in stream.getvalue()


def test_debug_is_for_the_loggers_of_sluice_and_for_named_ones() -> None:
    stream = io.StringIO()
    log.configure(LogSettings("text", logging.DEBUG, {"kopf": logging.INFO}), stream)
    for name in ("queue_manager.x", "job_controller.x", "kopf.y", "aiohttp.z"):
        for level in (logging.DEBUG, logging.INFO):
            logging.getLogger(name).log(level, "x")
    seen = [tuple(line.split()[1:3]) for line in stream.getvalue().splitlines()]
    assert seen == [
        ("DEBUG", "queue_manager.x"),
        ("INFO", "queue_manager.x"),
        ("DEBUG", "job_controller.x"),
        ("INFO", "job_controller.x"),
        ("INFO", "kopf.y"),
        ("INFO", "aiohttp.z"),
    ]


def test_a_single_logger_has_its_own_level() -> None:
    stream = io.StringIO()
    log.configure(LogSettings("text", logging.WARNING, {"queue_manager.engine.rest_client": logging.DEBUG}), stream)
    logging.getLogger("queue_manager.engine.rest_client").debug("x")
    logging.getLogger("queue_manager.engine.cache").info("x")
    logging.getLogger("aiohttp").info("x")
    assert [line.split()[2] for line in stream.getvalue().splitlines()] == ["queue_manager.engine.rest_client"]


def test_warnings_of_python_are_lines_of_the_log() -> None:
    stream = io.StringIO()
    log.configure(LogSettings("json"), stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("deprecated", UserWarning, stacklevel=1)
    assert json.loads(stream.getvalue())["logger"] == "py.warnings"
