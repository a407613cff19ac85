"""Parse JSON, record repeated names, and report errors with the texts of Go's parser."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from job_controller.json_tree import Json
from queue_manager.local.status_errors import bad_request

_KEY = re.compile(rb'"\s*:')


class Repeated(dict[str, Any]):
    """A JSON object that repeats a name; `names` are all its names in order of occurrence."""

    names: list[str]


def parse_json(body: bytes, prefix: str = "", *, repeated: bool = True) -> Json:
    """Parse a JSON text. If `repeated`, objects that repeat a name become `Repeated`.

    Raises StatusError 400, its message after `prefix`. The fast parser silently keeps the last value of a repeated
    name. The text contains at least as many `":` as all objects together have names, so equal counts prove that no name
    was dropped; otherwise the slow parser reads the text again.
    """
    try:
        tree = orjson.loads(body)
        # Compact JSON equals the encoded tree unless a name was dropped, so it need not be counted.
        if repeated and orjson.dumps(tree) != body and _count_names(tree) != len(_KEY.findall(body)):
            tree = json.loads(body, object_pairs_hook=marked_object, parse_int=whole)
    except (orjson.JSONEncodeError, ValueError, RecursionError) as error:
        raise bad_request(f"{prefix}{syntax_error(body, error)}") from None
    return tree


def whole(number: str | int) -> int | float:
    """Return an integer as the fast parser does: as a float if 64 bits do not hold it.

    Raises ValueError when it exceeds the range of a float too.
    """
    value = int(number)
    if -(2**63) <= value < 2**64:
        return value
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number is out of range") from None


def _count_names(tree: Json) -> int:
    names, level = 0, [tree]
    while level:
        below: list[Json] = []
        for node in level:
            if type(node) is dict:
                names += len(node)
                below += [item for item in node.values() if type(item) is dict or type(item) is list]
            elif type(node) is list:
                below += [item for item in node if type(item) is dict or type(item) is list]
        level = below
    return names


def marked_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object of these fields, as `Repeated` if a name occurs twice; the last value of a field is kept."""
    tree = dict(pairs)
    if len(tree) == len(pairs):
        return tree
    repeated = Repeated(tree)
    repeated.names = [name for name, _ in pairs]
    return repeated


def syntax_error(body: bytes, error: Exception) -> str:
    """Return the error of Go's parser for invalid JSON, as precisely as the position in `error` allows."""
    text = body.decode("utf-8", "replace")
    if not text.strip():
        return "unexpected end of JSON input"
    if type(error) is json.JSONDecodeError:  # excludes the fast parser's error, which is a subclass
        at = error.pos
    else:
        try:
            json.loads(text)
        except json.JSONDecodeError as found:
            return syntax_error(body, found)
        except RecursionError:
            return "exceeded max depth"
        except ValueError:  # more digits than Python converts
            return "a number is out of range"
        return "exceeded max depth" if "limit" in str(error) else str(error)
    if at >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
        return "unexpected end of JSON input"
    if error.msg.startswith("Illegal trailing comma"):  # since Python 3.13, at the comma; Go reports the next character
        at += 1 + len(text[at + 1 :]) - len(text[at + 1 :].lstrip())
    char = text[at]
    place = {
        "Extra data": "after top-level value",
        "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
        "Illegal trailing comma before end of object": "looking for beginning of object key string",
        "Expecting ':' delimiter": "after object key",
        "Expecting ',' delimiter": "after object key:value pair",
    }.get(error.msg, "looking for beginning of value")
    return f"invalid character {quoted(char)} {place}"


def quoted(char: str) -> str:
    """A character in quotes, as Go's JSON decoder prints it in errors."""
    return {"'": r"'\''", '"': "'\"'", "\n": r"'\n'"}.get(char, f"'{char}'")
