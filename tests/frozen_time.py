"""freezegun, set up for this code base: tests import `freeze_time` from here.

freezegun puts a class of its own in the place of `datetime` in every module that is loaded. Modules must keep the real
class

- if msgspec or pydantic read their types: a field that is resolved while time is frozen has freezegun's class for the
  rest of the process, and refuses every real time. These modules read no clock;
- if they look the class up once, as `cryptography` does when the first certificate is made;
- if reading all their attributes is dear: that imports the 700 models of `kubernetes`.

The ignore list holds beginnings of names. freezegun's own names `queue`, of the standard library, which leaves out all
of `queue_manager`: that entry is removed here.

msgspec does not encode times of freezegun's class, so no controller can run while time is frozen: controllers take a
`Clock`, and most tests give them one. freezegun is for what reads the clock of the machine itself. In an async test,
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
    "queue_manager.operator.rivals",
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
