"""What a template becomes with given settings, and as text for Helm."""

from __future__ import annotations

import pytest

from queue_manager.installation.helm_text import chart_template
from queue_manager.installation.template import (
    ITEM,
    NAMESPACE,
    Checksum,
    Choice,
    Each,
    Joined,
    Setting,
    Spread,
    Template,
    TemplateCondition,
    Text,
    either,
    resolve,
    when,
)

VALUES = {"on": True, "off": False, "kind": "B", "of": {"names": ["x", "y"]}, "own": {"k": "v"}, "namespace": "ns"}
ON, OFF = TemplateCondition("on"), TemplateCondition("off")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({"a": Setting("of.names"), "b": Text("<", NAMESPACE, ">")}, [{"a": ["x", "y"], "b": "<ns>"}]),
        ({"a": when(1, ON), "b": when(2, OFF), "c": when(3, ON, OFF)}, [{"a": 1}]),
        ({"a": [when(1, ON), when(2, OFF), Each("of.names", Text("-", ITEM))]}, [{"a": [1, "-x", "-y"]}]),
        ({"a": Choice(OFF, 1, 2), "b": Choice(TemplateCondition("kind", ("A", "B")), 1, 2)}, [{"a": 2, "b": 1}]),
        ({"a": when(1, TemplateCondition("kind", ("A",), negated=True)), "+": Spread("own")}, [{"a": 1, "k": "v"}]),
        (Each("of.names", {"name": ITEM}), [{"name": "x"}, {"name": "y"}]),
        (when({"a": 1}, OFF), []),
        ({"a": Text("<", Joined("of.names", ", ", "!"), ">")}, [{"a": "<, x!, y!>"}]),
        ({"a": Checksum("kind")}, [{"a": "df7e70e5021544f4834bbee64a9e3789febc4be81470df629cad6ddb03320a5c"}]),
    ],
)
def test_settings_are_filled_in(template: Template, expected: list[object]) -> None:
    assert resolve([template], VALUES) == expected


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(KeyError, match="nope"):
        resolve([{"a": Setting("of.nope")}], VALUES)


def test_a_template_is_written_for_helm() -> None:
    """Directives stand at the left margin, where they leave no trace in the output."""
    template = when({"a": {"b": when([Each("of.names", {"name": ITEM})], ON)}, "t": "{{ x }}", "yes": "no"}, OFF)
    assert chart_template([template]).splitlines() == [
        "{{- if $.Values.off }}",
        "---",
        "a:",
        "{{- if $.Values.on }}",
        "  b:",
        "{{- range $item := $.Values.of.names }}",
        "    - name: {{ $item | toJson }}",
        "{{- end }}",
        "{{- end }}",
        't: {{ `"{{ x }}"` }}',
        '"yes": "no"',
        "{{- end }}",
    ]


def test_a_mapping_in_a_list_that_begins_with_a_condition_is_refused() -> None:
    """Its dash would be lost with the entry."""
    with pytest.raises(TypeError, match="first entry"):
        chart_template([{"a": [{"b": when(1, ON), "c": 2}]}])


def test_two_trees_become_one_with_a_choice_wherever_they_differ() -> None:
    tree = either(ON, {"a": [1, "x"], "b": {"c": 2}}, {"a": [1, "y"], "b": {"c": 2}})
    assert tree == {"a": [1, Choice(ON, "x", "y")], "b": {"c": 2}}
    assert either(ON, {"a": 1}, {"b": 1}) == Choice(ON, {"a": 1}, {"b": 1})


def test_a_field_of_the_configuration_is_read_by_helm_from_the_text() -> None:
    path = "config.managedJobsNamespaceSelector.matchLabels"
    [_, line] = chart_template([{"a": Setting(path)}]).splitlines()
    text = "$.Values.managerConfig.controllerManagerConfigYaml"
    assert line == f'a: {{{{ (dig "managedJobsNamespaceSelector" "matchLabels" (dict) (fromYaml {text})) | toJson }}}}'
