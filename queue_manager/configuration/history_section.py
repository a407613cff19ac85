"""The history of Jobs: where it is stored, and how much of it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from queue_manager.configuration.config_field_types import AtStart, ConfigModel, Positive, PositiveDuration

OPEN = AtStart("the store is open already")
DAY = timedelta(days=1)
STORE = r"^$|^(sqlite:///.|postgres(ql)?(\+psycopg)?://.)"


def _store_url(value: object) -> object:
    if isinstance(value, str) and re.match(STORE, value) is None:
        raise PydanticCustomError("store_url", "not the URL of a store")
    return value


StoreUrl = Annotated[str, BeforeValidator(_store_url), WithJsonSchema({"type": "string", "pattern": STORE})]


class History(ConfigModel):
    """What happened to each Job, kept beyond its deletion. Sluice's own section."""

    enable: Annotated[bool, OPEN] = True
    """Whether a history is written, if there is a place for it."""

    url: Annotated[StoreUrl, OPEN] = ""
    """The store: sqlite:///PATH or postgresql://HOST/DATABASE; leave the password to $PGPASSWORD or a .pgpass file.
    Omitted: history.db in the data directory (sluice up), no history (sluice manager)."""

    max_age: PositiveDuration = 90 * DAY
    """Ended Jobs that were submitted longer ago are removed from the history: at the start, after a reload, and then
    after each maxAge, but at most once a minute and at least hourly. Jobs that have not ended are kept."""

    max_rows: Positive = 1_000_000
    """Beyond this number of rows (Jobs, their steps and pods; each about 150 bytes) the oldest ended Jobs are
    removed, at the same times; in between there may be more rows."""
