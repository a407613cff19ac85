"""Each setting of an installation with values that it may not have: what is said of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from queue_manager.installation.helm_values import SettingsError, settings_from, values_schema
from queue_manager.installation.setting_mistakes import PATTERNS
from tests.wrong_values import OF_PYDANTIC, TOO_LONG, WRONG

SCHEMA: dict[str, Any] = json.loads(values_schema())
QUANTITIES = "resources"  # its values have a pattern, and a validator with words of its own


def settings_in(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each setting with its schema, also those that contain others."""
    for name, child in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, child
        yield from settings_in(child, here)


def said(path: str, value: object) -> list[str]:
    tree = value
    for name in reversed(path.split(".")):
        tree = {name: tree}
    try:
        settings_from([tree], [])  # type: ignore[list-item]
    except SettingsError as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize("path", [path for path, _ in settings_in(SCHEMA)])
def test_a_wrong_value_is_named_with_the_setting_and_what_is_allowed(path: str) -> None:
    found = [line for value in (*WRONG, *([value] for value in WRONG)) for line in said(path, value)]
    assert found
    for line in found:
        assert line.startswith(path)
        assert not OF_PYDANTIC.search(line), line
        assert TOO_LONG not in line
        assert re.search(
            r"; must |unknown setting; |not a quantity|is negative|needs the queue|^managerConfig", line
        ), line


def test_each_pattern_has_words() -> None:
    """The schema, by which Helm checks values, has the pattern itself."""
    found = {path for path, schema in settings_in(SCHEMA) if "pattern" in {**schema, **schema.get("items", {})}}
    assert found == set(PATTERNS)
    assert "pattern" in json.dumps(SCHEMA["properties"][QUANTITIES])


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("image.tags", "image.tags: unknown setting; did you mean image.tag?"),
        ("image.repo", "image.repo: unknown setting; allowed here: repository, tag, digest, pullPolicy"),
        ("webhooks.enabled", "webhooks: unknown setting; did you mean webhook?"),
        (
            "monitoring.serviceMonitors.interval",
            "monitoring.serviceMonitors: unknown setting; did you mean monitoring.serviceMonitor?",
        ),
        ("repository", "repository: unknown setting; did you mean image.repository?"),
        ("enabled", "enabled: unknown setting; sluice install --list-settings names them all"),
        ("nothingLikeIt", "nothingLikeIt: unknown setting; sluice install --list-settings names them all"),
    ],
)
def test_an_unknown_setting_is_named_with_those_that_may_be_meant(path: str, line: str) -> None:
    assert said(path, "x") == [line]
