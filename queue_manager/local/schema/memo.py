"""Values that passed a test before need not be tested again.

The pods of a Job are made from one template, and most writes to an object leave its spec alone. A test that depends
on nothing but the value (its decoding, its validation) gives the same answer every time, so values that passed it
are remembered by their JSON text: to write the text costs a tenth of the test.
"""

from __future__ import annotations

import orjson

from job_controller.json_tree import Json

LIMIT = 512  # texts remembered per test; beyond that memory starts anew
LENGTH = 8192  # bytes of a text worth remembering


def text_of(value: Json) -> bytes | None:
    """What tells a value from all others; None for what JSON does not tell (repeated names), or too long a text."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:
        return None
    return text if len(text) <= LENGTH else None


class Passed:
    """The texts of values that passed one test."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: set[bytes | None] = set()

    def __contains__(self, text: bytes | None) -> bool:
        return text in self._texts

    def add(self, text: bytes | None) -> None:
        """Remember a text; None is never remembered."""
        if text is None:
            return
        if len(self._texts) >= LIMIT:
            self._texts.clear()
        self._texts.add(text)


class Answers:
    """What a function made of values, as JSON: each answer is a fresh tree."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: dict[bytes | None, bytes] = {}

    def get(self, text: bytes | None) -> Json:
        """The answer for the value of this text, or None."""
        answer = self._answers.get(text)
        return None if answer is None else orjson.loads(answer)

    def add(self, text: bytes | None, answer: Json) -> None:
        """Remember an answer; None is never remembered."""
        if text is None:
            return
        if len(self._answers) >= LIMIT:
            self._answers.clear()
        self._answers[text] = orjson.dumps(answer)
