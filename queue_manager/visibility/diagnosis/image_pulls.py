"""How long nodes took to pull images, from the Events of kubelets. Pure.

A kubelet's Event with the reason Pulled says it in its message, and is kept for an hour:

    Successfully pulled image "train:7" in 58.1s (1m35.2s including waiting). Image size: 4012345678 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

from job_controller.model import Key
from queue_manager import durations
from queue_manager.api.events import Event

PULLED = "Pulled"  # reason of the Event
_MESSAGE = re.compile(
    r'pulled image "(?P<image>[^"]+)" in (?P<took>[^\s(]+)(?: \((?P<waited>\S+) including waiting\))?'
)


class ImagePull(NamedTuple):
    """A pull that ended, with the wait for other pulls of the node."""

    pod: Key
    image: str
    took: timedelta


def image_pulls(events: Iterable[Event]) -> Iterator[ImagePull]:
    """The pulls that these Events report. An image that was on the node already is no pull."""
    for event in events:
        found = _MESSAGE.search(event.message) if event.reason == PULLED else None
        if found is None:
            continue
        try:
            took = durations.parse((found["waited"] or found["took"]).rstrip("."))
        except ValueError:
            continue
        about = event.involved_object
        yield ImagePull(Key(about.namespace, about.name), found["image"], took)
