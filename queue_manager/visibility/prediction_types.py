"""The record of a predicted event of a Job, which `predictions` returns and explanations contain. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Prediction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A future event; `at` is None if its time is unknown."""

    at: datetime | None
    what: str
