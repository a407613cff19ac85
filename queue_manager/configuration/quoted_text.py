"""A value that a user wrote, as part of a message: on one line, and not longer than people read."""

from __future__ import annotations

import json

MOST = 60  # characters that are shown of a value


def quoted(text: str) -> str:
    """Return a text in quotes: with JSON's escapes of backslashes and control characters, cut after MOST characters."""
    return f'"{plain(text)}"'


def plain(text: str) -> str:
    """Return a text without quotes, otherwise as `quoted`."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"')
    return escaped if len(escaped) <= MOST else f"{escaped[:MOST]}..."
