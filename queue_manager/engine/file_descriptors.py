"""File descriptors of this process: how many it may open, and how many of them connections may use.

Each pod needs descriptors (process, log), and so do the database and the watches. The usual soft limit of 1 024
protects programs that call select(2); ours do not, and raise it. Containers start with the limit that this process was
started with, because their programs may call select(2).
"""

from __future__ import annotations

import resource
from contextlib import suppress

MAX_DESCRIPTORS = 1 << 16  # enough for any number of pods that one machine runs
RESERVED_DESCRIPTORS = 512  # kept free of client connections: for pods, the database, our own requests
INHERITED_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # the soft limit at the start of this program


def raise_limit() -> None:
    """Raise the soft limit to the hard limit, or to `MAX_DESCRIPTORS` if that is less. Never lowers it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS accepts less than its hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def for_connections() -> int:
    """How many descriptors all client connections together may use."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    return max(limit // 4, limit - RESERVED_DESCRIPTORS)
