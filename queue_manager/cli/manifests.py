"""Reads manifests from files, folders or standard input, and keeps the line number of each value."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from queue_manager import kube_yaml
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.yaml_problems import located_yaml_error

# Nested aliases can make a small file expand exponentially.
MAX_NODES = 200_000
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One document of a file. `tree` is its content; `root` has the YAML nodes with their positions."""

    source: str
    tree: dict[str, Any]
    root: yaml.MappingNode

    def place(self, field: str = "") -> str:
        """Return `file:line` of a field path like spec.template.spec.containers[0].image, or of its nearest parent."""
        node: yaml.Node = self.root
        line = node.start_mark.line
        for name, inside in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", field):
            found = _child(node, name or inside)
            if found is None:
                break
            line, node = found
        return f"{self.source}:{line + 1}"


def _child(node: yaml.Node, name: str) -> tuple[int, yaml.Node] | None:
    """Return the line and value node of a key or index (labels and annotations are written `labels[key]`)."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        item = node.value[int(name)]
        return item.start_mark.line, item
    return None


def read(source: str, heading: str = "nothing was submitted:") -> list[Manifest]:
    """Return all documents of a file, of a folder's *.yaml, *.yml and *.json by name, or of standard input (`-`).

    Raises CommandRefused with every place that is not valid YAML or not an object, below the heading.
    """
    return parse(texts_of(source), heading)


def parse(texts: Mapping[str, str], heading: str) -> list[Manifest]:
    """Return all documents of texts by the name that stands for their file; raises as `read`."""
    manifests, problems = parts(texts)
    if problems:
        raise CommandRefused("\n  ".join([heading, *problems]), EXIT_NEVER)
    return manifests


def parts(texts: Mapping[str, str]) -> tuple[list[Manifest], list[str]]:
    """Return the documents that can be read, and every place that is not valid YAML or not an object."""
    manifests: list[Manifest] = []
    problems: list[str] = []
    for name, text in texts.items():
        try:
            for each in _documents(name, text):
                if isinstance(each, Manifest):
                    manifests.append(each)
                else:
                    problems.append(each)
        except _Unreadable as problem:
            problems.append(str(problem))
    return manifests, problems


def texts_of(source: str) -> dict[str, str]:
    """Return the texts that `read` parses, by their file. Raises CommandRefused if one cannot be read."""
    return dict(_texts(source))


def _texts(source: str) -> Iterator[tuple[str, str]]:
    if source == "-":
        try:
            yield "<stdin>", sys.stdin.read()
        except UnicodeDecodeError as error:
            raise CommandRefused(f"<stdin>: byte {error.start} is not UTF-8", EXIT_NEVER) from error
        return
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
        if not files:
            raise CommandRefused(f"{source}: no {', '.join(SUFFIXES)} file in this folder", EXIT_NEVER)
    else:
        files = [path]
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except OSError as error:
            raise CommandRefused(f"{file}: {error.strerror}", EXIT_NEVER) from error
        except UnicodeDecodeError as error:
            raise CommandRefused(f"{file}: byte {error.start} is not UTF-8", EXIT_NEVER) from error


class _Unreadable(Exception):
    pass


def _documents(name: str, text: str) -> Iterator[Manifest | str]:
    """Yield each document, or the error in its place if the next can still be read; else raise _Unreadable."""
    if name.endswith(".json"):
        text = text.replace("\t", " ")  # JSON allows tabs as white space, YAML not as indentation
    loader = kube_yaml.Loader(text, 2 * MAX_NODES)
    try:
        while loader.check_node():
            root = loader.get_node()
            if isinstance(root, yaml.ScalarNode) and root.tag == kube_yaml.NULL:
                continue  # an empty document between two ---
            if not isinstance(root, yaml.MappingNode):
                yield f"{name}:{root.start_mark.line + 1}: a manifest is a mapping with apiVersion and kind"
                continue
            repeated: list[kube_yaml.Repeated] = []
            tree: dict[str, Any] = kube_yaml.to_json(root, MAX_NODES, repeated)
            yield from (_given_twice(name, each) for each in repeated)
            yield from _unpacked(Manifest(name, tree, root))
    except kube_yaml.TooManyValues as error:
        raise _Unreadable(f"{name}:1: more than {MAX_NODES} values once aliases are expanded") from error
    except kube_yaml.NotJson as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _Unreadable(f"{name}:{line}: cannot be sent to an API server: {error.problem}") from error
    except yaml.YAMLError as error:
        raise _Unreadable(located_yaml_error(name, text, error)) from error
    finally:
        loader.dispose()


def _given_twice(name: str, repeated: kube_yaml.Repeated) -> str:
    """Return why a duplicate key is refused: the first value would be lost silently."""
    first, key = repeated
    where = f"first given in line {first.start_mark.line + 1}"
    return f"{name}:{key.start_mark.line + 1}: {key.value} is a duplicate key; {where}"


def _unpacked(manifest: Manifest) -> Iterator[Manifest]:
    """Yield the items of a List (as written by `kubectl get -o yaml`) with their places, or the manifest itself."""
    items, found = manifest.tree.get("items"), _child(manifest.root, "items")
    if not str(manifest.tree.get("kind")).endswith("List") or not isinstance(items, list) or found is None:
        yield manifest
        return
    for tree, root in zip(items, found[1].value, strict=True):
        if not isinstance(root, yaml.MappingNode):
            raise _Unreadable(
                f"{manifest.source}:{root.start_mark.line + 1}: an item is a mapping with apiVersion and kind"
            )
        yield from _unpacked(Manifest(manifest.source, tree, root))
