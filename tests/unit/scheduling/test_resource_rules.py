"""Requests that count as something else, or not at all."""

import pytest

from queue_manager.scheduling.resource_rules import ResourceRules, ResourceTransformation


@pytest.mark.parametrize(
    ("rules", "requests", "counted"),
    [
        (ResourceRules(), {"cpu": 1500}, {"cpu": 1500}),
        (ResourceRules(excluded_prefixes=("net.",)), {"cpu": 1, "net.example/a": 2}, {"cpu": 1}),
        (
            ResourceRules(transformations={"gpu": ResourceTransformation(True, {"units": "3"})}),
            {"cpu": 1, "gpu": 2},
            {"cpu": 1, "units": 6},
        ),
        (
            ResourceRules(transformations={"gpu": ResourceTransformation(False, {"cpu": "0.5"})}),
            {"cpu": 1000, "gpu": 3},
            {"cpu": 2500, "gpu": 3},
        ),
        (
            ResourceRules(transformations={"gpu": ResourceTransformation(True, {"m": "1Gi"}, multiply_by="cpu")}),
            {"cpu": 2000, "gpu": 2},
            {"cpu": 2000, "m": 4 << 30},
        ),
        (
            ResourceRules(
                transformations={
                    "a": ResourceTransformation(True, {"x": "1"}),
                    "b": ResourceTransformation(True, {"x": "2"}),
                }
            ),
            {"a": 1, "b": 1},
            {"x": 3},
        ),
        (
            ResourceRules(transformations={"gpu": ResourceTransformation(True, {"x": "-2", "cpu": "0.0001"})}),
            {"gpu": 1},
            {"x": 0, "cpu": 1},
        ),
        (
            ResourceRules(("net.",), transformations={"net.a": ResourceTransformation(False, {"x": "1"})}),
            {"net.a": 1},
            {},
        ),
    ],
)
def test_what_is_counted(rules, requests, counted):
    assert rules.apply(requests) == counted
