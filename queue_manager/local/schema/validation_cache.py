"""Cache of values that have passed a test.

The pods of a Job are created from one template, and most writes to an object do not change its spec. A test that
depends only on the value (decoding, validation) always has the same result, so values that passed are remembered by
their JSON text. Encoding the text costs a tenth of the test.
"""

from __future__ import annotations

import orjson

from job_controller.json_tree import Json

LIMIT = 512  # texts remembered per test; the cache is cleared when it is full
LENGTH = 8192  # bytes of the longest text that is remembered


def text_of(value: Json) -> bytes | None:
    """Return the JSON text that identifies a value; None if it is too long or has repeated names."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:
        return None
    return text if len(text) <= LENGTH else None


class Passed:
    """The JSON texts of values that passed one test."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: set[bytes | None] = set()

    def __contains__(self, text: bytes | None) -> bool:
        return text in self._texts

    def add(self, text: bytes | None) -> None:
        """Remember a text. None is ignored."""
        if text is None:
            return
        if len(self._texts) >= LIMIT:
            self._texts.clear()
        self._texts.add(text)


class Answers:
    """Cached results of a function of a value, stored as JSON, so that each `get` returns a new tree."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: dict[bytes | None, bytes] = {}

    def get(self, text: bytes | None) -> Json:
        """Return the result for the value with this text, or None."""
        answer = self._answers.get(text)
        return None if answer is None else orjson.loads(answer)

    def add(self, text: bytes | None, answer: Json) -> None:
        """Remember a result. A text of None is ignored."""
        if text is None:
            return
        if len(self._answers) >= LIMIT:
            self._answers.clear()
        self._answers[text] = orjson.dumps(answer)
