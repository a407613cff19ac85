"""YAML values are those of an API server's converter to JSON, as recorded from sigs.k8s.io/yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from queue_manager import kube_yaml

RECORDED = Path(__file__).parents[1] / "golden/yaml/recorded.jsonl"
CASES = [json.loads(line) for line in RECORDED.read_text().split("\n") if line]


@pytest.mark.parametrize("case", [case for case in CASES if "error" not in case], ids=lambda case: ascii(case["yaml"]))
def test_a_document_has_the_same_values_as_in_go(case: dict[str, Any]) -> None:
    read = kube_yaml.load(case["yaml"])
    assert typed(read) == typed(json_numbers(case["json"]))


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: ascii(case["yaml"]))
def test_a_document_that_go_refuses_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(yaml.YAMLError):
        kube_yaml.load(case["yaml"])


def typed(tree: Any) -> Any:
    """With the type of each value: 1, 1.0 and true are equal in Python. The order of keys is ignored."""
    if isinstance(tree, dict):
        return {name: typed(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [typed(item) for item in tree]
    return type(tree).__name__, tree


def json_numbers(tree: Any) -> Any:
    """Integers beyond 64 bits become floats, as in a JSON parser."""
    if isinstance(tree, dict):
        return {name: json_numbers(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [json_numbers(item) for item in tree]
    beyond = type(tree) is int and not -(2**63) <= tree < 2**64
    return float(tree) if beyond else tree


LONG = 1_400_000


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    ["1" + ":1" * LONG, "1" + ":1" * LONG + ".5", "9" * LONG, "0x" + "f" * LONG, "0" * LONG, "0b" + "1" * LONG,
     "1" + "_" * LONG, "0." + "1" * LONG, "1e" + "9" * LONG, "-" * LONG],
    ids=["base-60", "base-60-float", "long", "hex", "zeros", "binary", "_", "fraction", "exponent", "signs"],
)  # fmt: skip
def test_a_long_scalar_is_read_in_linear_time(text: str) -> None:
    """Such as a base-60 number of very many parts."""
    assert kube_yaml.load(f"a: {text}") is not None


@pytest.mark.parametrize("text", ["a: 1:30:00", "a: 1:1_.:5", "a: 190:20:30.15", "a: 1:30."])
def test_no_number_has_base_60(text: str) -> None:
    assert kube_yaml.load(text) == {"a": text.removeprefix("a: ")}


BOMBS = {
    "aliases": "\n".join(
        ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    ),
    "merges": "\n".join(
        ["a0: &a0 {k: v}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12))]
    ),
    "products": f"a: &a [{'x,' * 2_000}]\nb: [{'*a ,' * 2_000}]",
    "plain": f"a: [{'x,' * 20_000}",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", BOMBS)
def test_a_document_that_expands_beyond_its_bound_is_refused(name: str) -> None:
    with pytest.raises(kube_yaml.TooManyValues):
        kube_yaml.load(BOMBS[name], 5_000)


@pytest.mark.parametrize("text", ["a: [x, x]", "a: &a {b: 1}\nc: {<<: *a}"])
def test_a_document_at_its_bound_is_read(text: str) -> None:
    values = {"a: [x, x]": 3, "a: &a {b: 1}\nc: {<<: *a}": 5}[text]
    assert kube_yaml.load(text, values)
    with pytest.raises(kube_yaml.TooManyValues):
        kube_yaml.load(text, values - 1)


@pytest.mark.parametrize("start", ["[", "- ", "? ", "{a: "])
def test_deep_nesting_is_refused(start: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError, match=kube_yaml.TOO_DEEP):
        kube_yaml.load("a: " * (start == "[") + start * 100_000)
