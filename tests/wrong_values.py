"""Values that no setting, or few, may have, and the sentences of pydantic, which no message to a user may contain."""

from __future__ import annotations

import re

WRONG: tuple[object, ...] = (
    None,
    True,
    -1,
    5,
    10**20,
    1.5,
    float("inf"),
    "",
    "soon",
    "A b\n",
    "9" * 400,
    [],
    {},
    [None],
    [["x"]],
    {"x": None},
    {"x": {"x": 1}},
)
TOO_LONG = "9" * 100
OF_PYDANTIC = re.compile(
    r"Input should|should (be|match|have)|unable to|[Ff]ield required|Extra inputs|Value error|ctx"
)
