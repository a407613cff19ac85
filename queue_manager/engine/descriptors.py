"""File descriptors of a program of ours: how many it may open, and which of them connections may take.

Every pod needs descriptors (its process, its log), and so do the database and the watches. The usual soft limit of
1 024 is kept low for programs that call select(2); ours do not, and raise it. Containers start with the limit that we
were started with, for they may call it.
"""

from __future__ import annotations

import resource
from contextlib import suppress

MAX_DESCRIPTORS = 1 << 16
RESERVED_DESCRIPTORS = 512  # for what is no connection of a client: pods, database, our own requests
INHERITED_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # the soft limit at the start of this program


def raise_limit() -> None:
    """Raise the soft limit to the hard one, or to `MAX_DESCRIPTORS` if that is less. Never lowers it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def for_connections() -> int:
    """How many descriptors the connections of clients may take together."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    return max(limit // 4, limit - RESERVED_DESCRIPTORS)
