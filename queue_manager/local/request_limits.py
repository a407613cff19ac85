"""Limits on the content of one request, so that it neither blocks the event loop for long nor exceeds the recursion
depth.

The size in bytes is not enough: three megabytes can be one string or a million values, each of which is read many
times. A real API server has other limits and more threads; see DIFFERENCES.md. Work that is slow for other reasons than
the number of values (patterns, rules, YAML) runs in another process: see `schema/cpu_time_limits.py`. Writes of
thousands of values are prepared in a thread: see `server/large_writes.py`.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from queue_manager.kube_yaml import MAX_DEPTH, TOO_DEEP

MAX_BODY = 3 * 1024 * 1024  # bytes
MAX_VALUES = 50_000  # fields and items: about 0.25 s of work if each has a field manager

TOO_MANY = f"has more than {MAX_VALUES} values"


def excess(tree: Json, text: bytes | None = None) -> str:
    """Why a tree exceeds the limits; empty if it does not. With its JSON `text` most trees need not be walked."""
    if text is not None:
        opened = text.count(b"{") + text.count(b"[")
        if opened <= MAX_DEPTH and opened + text.count(b",") <= MAX_VALUES:
            return ""
    level, depth, values = [tree], 0, 0
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            return f"is {TOO_DEEP}"
        values += sum(len(getattr(node, "names", node)) for node in level)  # repeated names count, too
        if values > MAX_VALUES:
            return TOO_MANY
        level = [below for node in level for below in (node.values() if isinstance(node, dict) else node)]
    return ""
