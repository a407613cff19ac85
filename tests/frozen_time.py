"""freezegun, configured for this code base: tests import `freeze_time` from here.

freezegun replaces `datetime` by a class of its own in every loaded module. A module must keep the real class

- if msgspec or pydantic read its types: a field type that is resolved while time is frozen stays freezegun's class for
  the rest of the process and refuses every real time. These modules read no clock;
- if it looks the class up once, as `cryptography` does when the first certificate is made;
- if reading all its attributes is expensive: that imports the 700 models of `kubernetes`.

The ignore list holds prefixes of module names. freezegun's default list has `queue`, the module of the standard
library, which also matches `queue_manager`: that entry is removed here.

msgspec does not encode freezegun's class, so no controller can run while time is frozen: controllers take a `Clock`,
and most tests pass one. freezegun is for code that reads the clock of the machine itself. In an async test,
`real_asyncio=True` leaves timers running; without it the clock of the event loop is frozen too.
"""

from __future__ import annotations

import freezegun
from freezegun import freeze_time
from freezegun.config import DEFAULT_IGNORE_LIST

__all__ = ["freeze_time"]

_TYPES = (
    "job_controller",
    "queue_manager.api",
    "queue_manager.configuration",
    "queue_manager.engine.exec_plugin",
    "queue_manager.operator.second_job_controller",
    "queue_manager.visibility",
)

freezegun.configure(
    default_ignore_list=[
        *(name for name in DEFAULT_IGNORE_LIST if name != "queue"),
        "cryptography",
        "kubernetes",
        *_TYPES,
    ]
)
