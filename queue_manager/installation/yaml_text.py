"""Objects as YAML that people read: block style, texts of several lines as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from job_controller.json_tree import Json


class _Dumper(yaml.SafeDumper):
    """Block style with indented lists, no anchors, and texts of several lines as they are."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def as_yaml(trees: Iterable[Json]) -> str:
    """Return objects as a stream of YAML documents."""
    return yaml.dump_all(trees, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=120, allow_unicode=True)
