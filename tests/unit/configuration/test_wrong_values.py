"""Each field of a KueueConfig with values that it may not have: what is said of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from queue_manager.configuration import ConfigurationError, KueueConfig, loads
from queue_manager.configuration.config_field_types import (
    ConfigModel,
    element_type,
    fields_of,
    is_list,
    section_model,
)
from tests.wrong_values import OF_PYDANTIC, TOO_LONG, WRONG

VERSIONS = ("v1beta1", "v1beta2")
LINE = re.compile(r"f\.yaml:\d+: [A-Za-z][\w.\[\]-]*: (\S.*; .+|Invalid value: .+|must be .+|exactly one of .+)")


def with_each(model: type[ConfigModel], value: object, version: str) -> dict[str, Any]:
    """A section all of whose fields have this value; sections in it, and elements of lists, likewise."""
    return {name: _part(field.annotation, value, version) for name, field in fields_of(model, version).items()}


def _part(annotation: Any, value: object, version: str) -> object:
    if (section := section_model(annotation)) is not None:
        return with_each(section, value, version)
    element = element_type(annotation)
    if is_list(annotation) and (section := section_model(element)) is not None:
        return [with_each(section, value, version)]
    return value


def said(body: dict[str, Any], version: str) -> list[str]:
    head = {"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration"}
    try:
        loads(yaml.safe_dump({**head, **body}), "f.yaml")
    except ConfigurationError as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:20])
def test_a_wrong_value_is_named_with_field_and_what_is_allowed(value: object, version: str) -> None:
    sections = dict.fromkeys(fields_of(KueueConfig, version), value)
    for body in (with_each(KueueConfig, value, version), with_each(KueueConfig, [value], version), sections):
        for line in said(body, version):
            assert not OF_PYDANTIC.search(line), line
            assert TOO_LONG not in line
            assert LINE.fullmatch(line.strip()), line


def test_the_fields_are_tried_in_all_sections() -> None:
    lines = said(with_each(KueueConfig, "soon", "v1beta2"), "v1beta2")
    assert len(lines) > 60
    assert any("requeuingStrategy" in line for line in lines)
