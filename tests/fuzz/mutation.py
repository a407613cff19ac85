"""Changes of an input that keep what a parser needs, so that mutations reach the code behind the parser.

libFuzzer changes bytes, and most of such changes make JSON unreadable. Here a JSON body is changed as a tree: values
are replaced, entries are removed, doubled, renamed and moved. A body that is not JSON gets tokens of its format
inserted, or is changed by libFuzzer.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from tests.fuzz.target import Target

MutateBytes = Callable[[bytes, int], bytes]

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308),
    *(
        "",
        " ",
        "a",
        "default",
        "true",
        "1",
        "-1",
        "1e9",
        "100m",
        "1Gi",
        "1.5",
        "10s",
        "1h30m",
        "0x10",
        "é\u0000",
        "\ud7ff",
    ),
    *("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "a/b", "a.b/c", "0-3,5", "*", "x" * 300),
    *([], {}, [None], [{}], [[]], {"": None}, {"a": 1}, [1, "a"], [{"name": "a"}, {"name": "a"}]),
)


def mutated(
    target: Target, data: bytes, seeds: Sequence[bytes], max_size: int, seed: int, mutate_bytes: MutateBytes
) -> bytes:
    """Another input, derived from this one, or from a saved one.

    A decoder in C has no branches that atheris counts, so libFuzzer would keep none of the saved inputs for it.
    """
    rng = Random(seed)
    data = rng.choice(seeds) if seeds and rng.random() < 0.2 else data
    head, newline, body = data.partition(b"\n") if target.heads else (b"", b"", data)
    if target.heads and rng.random() < 0.1:
        head, newline = rng.choice(target.heads).encode(), b"\n"
        return (head + newline + body)[:max_size]
    if target.heads and rng.random() < 0.1:
        return mutate_bytes(data, max_size)
    room = max(1, max_size - len(head) - len(newline))
    return (head + newline + _changed(target, body, room, rng, mutate_bytes))[:max_size]


def with_changed_bytes(rng: Random, data: bytes, max_size: int) -> bytes:
    """A byte or a part replaced, inserted, removed or doubled: a simple form of libFuzzer's own mutations."""
    at, length = rng.randint(0, len(data)), rng.choice((1, 1, 2, 4, 16))
    match rng.randrange(4):
        case 0:
            part = bytes(rng.randrange(256) for _ in range(length))
        case 1:
            part = b""
        case 2:
            part = data[at : at + length] * 2
        case _:
            part, length = data[at:][: rng.randint(0, 64)], 0
    return (data[:at] + part + data[at + length :])[:max_size]


def _changed(target: Target, body: bytes, room: int, rng: Random, mutate_bytes: MutateBytes) -> bytes:
    if rng.random() < 0.85:
        try:
            tree = json.loads(body)
        except (ValueError, RecursionError):
            pass
        else:
            return _changed_tree(tree, rng)
    if target.tokens and rng.random() < 0.4:
        at = rng.randint(0, len(body))
        return (body[:at] + rng.choice(target.tokens).encode() + body[at + rng.choice((0, 0, 1, 3)) :])[:room]
    return mutate_bytes(body, room)


def _changed_tree(tree: Any, rng: Random) -> bytes:
    root = [copy.deepcopy(tree)]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(root, rng)
    try:
        return json.dumps(root[0], ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return json.dumps(tree).encode()


def _change(root: list[Any], rng: Random) -> None:
    places = [(root, 0), *_places(root[0])]
    parent, key = rng.choice(places)
    value = parent[key]
    match rng.randrange(8):
        case 0 | 1 | 2:
            parent[key] = copy.deepcopy(rng.choice(VALUES))
        case 3:
            other, at = rng.choice(places)
            parent[key] = copy.deepcopy(other[at])
        case 4 if parent is not root:
            del parent[key]
        case 5 if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(value))
        case 5 if isinstance(parent, dict):
            parent[rng.choice((f"{key}x", "name", "", str(rng.choice(places)[1])))] = value
        case 6:
            parent[key] = [copy.deepcopy(value)] if rng.random() < 0.5 else {"a": copy.deepcopy(value)}
        case 7 if isinstance(value, str):
            at = rng.randint(0, len(value))
            parent[key] = value[:at] + rng.choice((" ", "0", "-", ",", "/", ".", "e9", "é", "\n", "a")) + value[at:]
        case _:
            parent[key] = copy.deepcopy(rng.choice(VALUES))


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every value of a tree, as its container and its key there."""
    if isinstance(tree, dict | list):
        for key, value in list(tree.items()) if isinstance(tree, dict) else enumerate(tree):
            yield tree, key
            yield from _places(value)
