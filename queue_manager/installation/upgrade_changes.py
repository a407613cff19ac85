"""What an upgrade changes: the difference between an object and its state after server-side apply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from job_controller.json_tree import Json

# What the API server writes with every change, and what a Helm release adds to its objects.
OF_SERVER = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")
RELEASE, RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
OF_HELM = (RELEASE, RELEASE_NAMESPACE, "app.kubernetes.io/managed-by")
MAX_SHOWN = 60  # characters of a value
CONTEXT = 10  # characters that two long values have in common and that are shown beside their difference


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that an upgrade changes, with its old and new value; None if the field is absent."""

    path: str
    old: object
    new: object

    def __str__(self) -> str:
        if self.old is None:
            return f"{self.path} added: {_shown(self.new)}"
        if self.new is None:
            return f"{self.path} removed: {_shown(self.old)}"
        return f"{self.path}: {' → '.join(_shown_pair(_text(self.old), _text(self.new)))}"


def changes(live: Json, applied: Json) -> list[FieldChange]:
    """Return the fields that differ between an object and the answer to its server-side apply in a dry run."""
    return list(_differences("", _comparable(live), _comparable(applied)))


class Release(NamedTuple):
    """A Helm release."""

    name: str
    namespace: str


def release_of(live: Json) -> Release | None:
    """Return the Helm release that an object's annotations name; None if they name none."""
    annotations = live["metadata"].get("annotations") or {}
    if not annotations.get(RELEASE):
        return None
    return Release(annotations[RELEASE], annotations.get(RELEASE_NAMESPACE, ""))


def _comparable(tree: Json) -> Json:
    metadata = {key: value for key, value in tree["metadata"].items() if key not in OF_SERVER}
    for field in ("labels", "annotations"):
        metadata[field] = {key: value for key, value in (metadata.get(field) or {}).items() if key not in OF_HELM}
    return {key: value for key, value in tree.items() if key != "status"} | {"metadata": metadata}


def _differences(path: str, old: object, new: object) -> Iterator[FieldChange]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _differences(_joined(path, key), old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and old and new and _is_named(old) and _is_named(new):
        yield from _differences(path, _by_name(old), _by_name(new))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(f"{path}[{index}]", one, other)
    elif isinstance(old, list) and isinstance(new, list) and all(isinstance(each, str) for each in (*old, *new)):
        yield from _items(path, old, new)
    elif old != new:
        yield FieldChange(path, old, new)


def _items(path: str, old: list[str], new: list[str]) -> Iterator[FieldChange]:
    """Yield the texts, such as arguments, by which one list differs from the other."""
    for kind, start, end, other_start, other_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (FieldChange(path, each, None) for each in old[start:end])
            yield from (FieldChange(path, None, each) for each in new[other_start:other_end])


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path and not key.startswith("[") else f"{path}{key}"


def _is_named(items: list[Any]) -> bool:
    """Whether the items are objects with distinct names, like webhooks, containers and ports."""
    names = [item.get("name") for item in items if isinstance(item, dict)]
    return len(names) == len(items) and None not in names and len(set(names)) == len(names)


def _by_name(items: list[Json]) -> Json:
    return {f"[{item['name']}]": item for item in items}


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown(value: object) -> str:
    return _cut(_text(value), 0)


def _shown_pair(old: str, new: str) -> tuple[str, str]:
    """Return both texts; what is long is cut to the part that differs, and a little of what is around it."""
    same = next(
        (i for i, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(map(len, (old, new)))
    )
    start = same - CONTEXT if same > MAX_SHOWN // 2 else 0
    return _cut(old, start), _cut(new, start)


def _cut(text: str, start: int) -> str:
    """Return the text if it is short, else MAX_SHOWN characters from `start`, which may be past its last part."""
    if len(text) <= MAX_SHOWN:
        return text
    start = min(start, len(text) - MAX_SHOWN + 1)
    before = "…" if start else ""
    end = start + MAX_SHOWN - len(before)
    return f"{before}{text[start:end]}" if end >= len(text) else f"{before}{text[start : end - 1]}…"
