"""Logging: a message for people, followed by key=value pairs for machines.

Call `log.warning("text", extra={"key": ..., "error": ...})`. The extras are printed after the text in logfmt, so that
`grep key=default/train` finds every line about one object.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from time import gmtime
from typing import TextIO

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_BARE = re.compile(r"[\w./:@+-]+")


class KeyValueFormatter(logging.Formatter):
    """`2026-01-01T00:00:00Z WARNING queue_manager.engine.reflector text key=default/a error="..."`"""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self.converter = gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in logging
        extras = [f"{name}={_value(value)}" for name, value in vars(record).items() if name not in _STANDARD]
        return " ".join([super().formatMessage(record), *extras])


def configure(level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Log everything from this process to `stream` (default: stderr)."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(KeyValueFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def _value(value: object) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
