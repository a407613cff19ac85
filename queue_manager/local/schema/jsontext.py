"""JSON texts: repeated names are kept for those who must tell of them, and errors are put in Go's words."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from job_controller.json_tree import Json
from queue_manager.local.errors import bad_request

_KEY = re.compile(rb'"\s*:')


class Repeated(dict[str, Any]):
    """A JSON object in which a name occurs more than once; `names` are all of them, in their order."""

    names: list[str]


def parse_json(body: bytes, prefix: str = "", *, repeated: bool = True) -> Json:
    """A JSON text as a tree; objects with repeated names become `Repeated` unless told otherwise. Raises
    StatusError 400, its message after `prefix`.

    The fast parser keeps the last of equal names in silence. The text has at least as many `":` as all objects
    together have names, so equal numbers prove that none was dropped; else the slow parser looks again.
    """
    try:
        tree = orjson.loads(body)
        # Clients that write compact JSON get their bytes back: nothing was dropped, nothing need be counted.
        if repeated and orjson.dumps(tree) != body and _count_names(tree) != len(_KEY.findall(body)):
            tree = json.loads(body, object_pairs_hook=_object, parse_int=whole)
    except (orjson.JSONEncodeError, ValueError, RecursionError) as error:
        raise bad_request(f"{prefix}{syntax_error(body, error)}") from None
    return tree


def whole(number: str | int) -> int | float:
    """A whole number as the fast parser has it, which no tree here goes beyond: a float if 64 bits do not hold it.
    Raises ValueError when no float does either."""
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


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    tree = dict(pairs)
    if len(tree) == len(pairs):
        return tree
    repeated = Repeated(tree)
    repeated.names = [name for name, _ in pairs]
    return repeated


def syntax_error(body: bytes, error: Exception) -> str:
    """What Go's parser says about a text that is no JSON, as near as the position of the error tells."""
    text = body.decode("utf-8", "replace")
    if not text.strip():
        return "unexpected end of JSON input"
    if type(error) is json.JSONDecodeError:  # not the fast parser's, which is one too
        at = error.pos
    else:
        try:
            json.loads(text)
        except json.JSONDecodeError as found:
            return syntax_error(body, found)
        except RecursionError:
            return "exceeded max depth"
        except ValueError:  # of more digits than are read at all
            return "a number is out of range"
        return "exceeded max depth" if "limit" in str(error) else str(error)
    if at >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
        return "unexpected end of JSON input"
    if error.msg.startswith("Illegal trailing comma"):  # since Python 3.13, and at the comma: Go's is what comes next
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
    return {"'": r"'\''", '"': "'\"'", "\n": r"'\n'"}.get(char, f"'{char}'")
