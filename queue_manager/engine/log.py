"""Logging: lines of text for people, or one JSON object per line, with the same fields.

Call `log.warning("text", extra={"key": ..., "uid": ..., "error": ...})`. A line has time, level, logger and message,
then the extras, the cause id of the running code (`cause_ids`), and the ids of its trace. Lines of libraries (kopf,
aiohttp, asyncio, warnings) pass through the same handler. The names of the JSON fields are those of Kueue's logs, which
zap writes: ts, level, logger, msg, error, stacktrace.

The formatters are our own: both forms need the same fields, and structlog would add 0.1 s to the start.

Nothing logs a credential on purpose; what looks like one in the text of an error is masked. BEHAVIOUR.md#q96-logs.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, TextIO

import msgspec

from queue_manager.engine import tracing
from queue_manager.engine.cause_ids import CURRENT

Format = Literal["text", "json"]

LEVELS = MappingProxyType(
    {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}
)
OURS = ("job_controller", "queue_manager")
# At INFO kopf logs its own internal steps, at WARNING OpenTelemetry each attempt to reach a collector.
LIBRARIES = MappingProxyType({"kopf": logging.WARNING, "opentelemetry": logging.ERROR})
MASK = "[masked]"

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_KOPF_INTERNALS = ("k8s_skip", "settings")
_BARE = re.compile(r"[\w./:@+-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_SUSPICIOUS = ("earer ", "EARER ", "eyJ", "://", "PRIVATE KEY")  # one of them is in each text that _SECRET finds
# A bearer token, a JSON Web Token, the password in a URL, a private key: also with line ends as in a JSON string.
_SECRET = re.compile(
    r"(?i:(?<=bearer )[\w.~+/=-]{8,})"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?<=://)[^/\s:@\"]+:[^/\s@\"]+(?=@)"
    r"|(?<=PRIVATE KEY-----)[\w+/=\\\s]+(?=-----END)"
)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how. `level` is that of Sluice's own loggers; `levels` are those of single loggers."""

    format: Format = "text"
    level: int = logging.INFO
    levels: Mapping[str, int] = field(default_factory=dict)


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Log everything from this process to `stream` (default: stderr).

    DEBUG lines of libraries are left out, unless `settings.levels` names the library.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(settings.level, logging.INFO))
    libraries = {name: max(settings.level, level) for name, level in LIBRARIES.items()}
    for name, level in {**libraries, **dict.fromkeys(OURS, settings.level), **settings.levels}.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=True)


def is_json() -> bool:
    """Whether this process logs JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


class TextFormatter(logging.Formatter):
    """`2026-01-01T00:00:00.000Z WARNING queue_manager.engine.reflector text key=default/a error="..."`"""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line: time, level, logger, message, then the fields as `name=value`; a stack trace follows."""
        head = f"{_time(record)} {record.levelname} {record.name} {_CONTROL.sub(_escape, record.getMessage())}"
        line = " ".join([head, *(f"{name}={_text(value)}" for name, value in fields(record).items())])
        trace = _stacktrace(record)
        return _masked(f"{line}\n{trace}" if trace else line)


class JsonFormatter(logging.Formatter):
    """`{"level":"warning","ts":"2026-01-01T00:00:00.000Z","logger":"...","msg":"text","key":"default/a"}`"""

    def __init__(self) -> None:
        super().__init__()
        self._encoder = msgspec.json.Encoder(enc_hook=str)

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON, with the field names of Kueue's logs."""
        line = {
            "level": record.levelname.lower(),
            "ts": _time(record),
            "logger": record.name,
            "msg": record.getMessage(),
            **fields(record),
        }
        if trace := _stacktrace(record):
            line["stacktrace"] = trace
        try:
            text = self._encoder.encode(line).decode()
        except (TypeError, ValueError):  # an extra of a library, such as a mapping with keys that JSON has not
            text = json.dumps({name: str(value) for name, value in line.items()}, ensure_ascii=False)
        return _masked(text)


def fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a log line: its extras, its cause id, and the ids of its trace and span."""
    result = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    if "k8s_ref" in result:  # as kopf names the object
        result = {**_kopf_object(result.pop("k8s_ref")), **result}
        for name in _KOPF_INTERNALS:
            result.pop(name, None)
    if record.exc_info and record.exc_info[1] is not None and "error" not in result:
        result["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
    cause = CURRENT.get()
    if cause is not None:
        result["cause"] = str(cause)
        if cause.others:
            result["causes"] = [str(each) for each in (cause, *cause.others)]
    return {**result, **tracing.tracer.ids()} if tracing.tracer is not None else result


def _kopf_object(reference: object) -> dict[str, object]:
    found = reference if isinstance(reference, Mapping) else {}
    key = "/".join(str(found[part]) for part in ("namespace", "name") if found.get(part))
    return {name: value for name, value in (("key", key), ("uid", found.get("uid"))) if value}


def _time(record: logging.LogRecord) -> str:
    """The time in RFC 3339, UTC, with milliseconds."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _stacktrace(record: logging.LogRecord) -> str:
    if record.exc_info and record.exc_info[1] is not None:
        return logging.Formatter().formatException(record.exc_info)
    return record.stack_info or ""


def _text(value: object) -> str:
    text = f"{value:.6f}" if isinstance(value, float) else str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _escape(found: re.Match[str]) -> str:
    """Return the JSON escape of a control character, so that text in a name or an error cannot start a new line."""
    return json.dumps(found[0])[1:-1]


def _masked(line: str) -> str:
    return _SECRET.sub(MASK, line) if any(part in line for part in _SUSPICIOUS) else line
