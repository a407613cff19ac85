"""How much one request may bring, so that none stalls the others for long and none makes recursive code fail.

The size in bytes says little: three megabytes can be one text or a million values, each of which is read many times. A
real API server has other limits and more threads; see DIFFERENCES.md. What takes long for other reasons than the number
of values (patterns, rules, YAML) is done in another process: see `schema/patience.py`.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from queue_manager.kube_yaml import MAX_DEPTH, TOO_DEEP

MAX_BODY = 3 * 1024 * 1024  # bytes
MAX_VALUES = 50_000  # fields and items: a quarter of a second of work, where each has an owner

TOO_MANY = f"has more than {MAX_VALUES} values"


def excess(tree: Json, text: bytes | None = None) -> str:
    """Why a tree is too much, or nothing. Given its JSON, most trees need not be walked."""
    if text is not None:
        opened = text.count(b"{") + text.count(b"[")
        if opened <= MAX_DEPTH and opened + text.count(b",") <= MAX_VALUES:
            return ""
    level, depth, values = [tree], 0, 0
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            return f"is {TOO_DEEP}"
        values += sum(len(getattr(node, "names", node)) for node in level)  # those that are named twice, too
        if values > MAX_VALUES:
            return TOO_MANY
        level = [below for node in level for below in (node.values() if isinstance(node, dict) else node)]
    return ""
