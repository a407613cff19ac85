"""Kueue's recorded verdicts on configurations, and their effective values, are those of ours."""

from __future__ import annotations

import copy
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from job_controller.json_tree import Json
from queue_manager.configuration import ConfigurationError, KueueConfig, load, loads
from queue_manager.configuration.config_as_yaml import as_tree

GOLDEN = Path(__file__).parents[2] / "golden" / "kueue"


def lines(name: str) -> list[Json]:
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


DEFAULTS, ERRORS = lines("config-defaults.jsonl"), lines("config-errors.jsonl")
BASE = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}

NO_SUCH_FLAG = {"feature gates in both places", "unknown flag"}
"""About flags of Kueue's manager; ours has none for feature gates."""

FIELDS = {
    "unknown field": ["fooBar"],
    "waitForPodsReady.enable (v1beta1 field)": ["waitForPodsReady.enable"],
    "wrong kind": ["kind"],
    "unknown apiVersion": ["apiVersion"],
    "not yaml": [""],
    "file missing": [""],
    "timeout not a duration": ["waitForPodsReady.timeout"],
    "webhook port not a number": ["webhook.port"],
    "clientConnection qps string": ["clientConnection.qps"],
    "unknown feature gate": ["featureGates[NoSuchGate]"],
    "locked feature gate off": ["featureGates[ManagedJobsNamespaceSelectorAlwaysRespected]"],
    "child gate without parent": ["featureGates[TASFailedNodeReplacement]"],
}
"""Where Kueue's decoder names no path, or ours names a nearer one."""

DERIVED = {
    "negative timeout": "waitForPodsReady.recoveryTimeout",
    "several wrong fields at once": "waitForPodsReady.recoveryTimeout",
}
"""Kueue complains a second time about a field that is not in the file and only took over the wrong value."""


def recorded_fields(record: Json) -> list[str]:
    text = record["prints"][0]["error"]
    found = re.findall(r"(?:^\[?|, )([a-z][\w.\[\]]*): (?:Invalid|Required|Unsupported|Duplicate)", text)
    return [field for field in found if field != DERIVED.get(record["case"])]


def zero(value: Any) -> bool:
    """Whether Go omits the value in its output: empty values, and sections of empty values."""
    return all(map(zero, value.values())) if isinstance(value, dict) else not value


def agrees(ours: Any, recorded: Any, path: str = "") -> list[str]:
    """Differences between our effective configuration and the recorded one."""
    if not (isinstance(ours, dict) and isinstance(recorded, dict)):
        return [] if ours == recorded else [f"{path}: {ours!r} is not {recorded!r}"]
    missing = [f"{path}.{key} is missing" for key in recorded if key not in ours]
    more = [f"{path}.{key}: {ours[key]!r}" for key in ours if key not in recorded and not zero(ours[key])]
    both = [key for key in recorded if key in ours]
    return (
        missing
        + more
        + [difference for key in both for difference in agrees(ours[key], recorded[key], f"{path}.{key}")]
    )


def comparable(config: KueueConfig, recorded: Json) -> Json:
    """Ours without fields of our own, and without effective values that Go's output omits."""
    tree = as_tree(config)
    del tree["history"], tree["jobController"], tree["pendingReasonPeriod"]
    if "waitForPodsReady" in tree:
        assert tree["waitForPodsReady"]["requeuingStrategy"].pop("backoffFormula") == "Kueue"
    assert tree["webhook"].pop("certDir").endswith(recorded["webhook"]["certDir"])
    tree["webhook"]["certDir"] = recorded["webhook"]["certDir"]
    assert tree["health"].pop("readinessEndpointName") == "readyz"
    assert tree["health"].pop("livenessEndpointName") == "healthz"
    assert tree["controller"].pop("cacheSyncTimeout") == "2m0s"
    assert tree["resources"].pop("quotaCheckStrategy") == "BlockUndeclared"
    if not tree["internalCertManagement"]["enable"]:
        tree["internalCertManagement"] = {"enable": False}
    return tree


@pytest.mark.parametrize("record", DEFAULTS, ids=[record["case"] for record in DEFAULTS])
def test_the_effective_values_of_a_file_are_kueues(record: Json) -> None:
    text = record["file"] if isinstance(record["file"], str) else yaml.safe_dump(record["file"])
    if "error" in record:
        with pytest.raises(ConfigurationError) as refused:
            loads(text)
        assert all(problem.field in record["error"] for problem in refused.value.problems)
    else:
        assert agrees(comparable(loads(text), record["loaded"]), record["loaded"]) == []


def text_of(record: Json) -> str:
    config = record["config"]
    return config if isinstance(config, str) else yaml.safe_dump({**copy.deepcopy(BASE), **config})


def test_every_recorded_verdict_but_those_about_flags_is_asked() -> None:
    assert len(ERRORS) == 39
    assert {record["case"] for record in ERRORS} >= NO_SUCH_FLAG


@pytest.mark.parametrize(
    "record",
    [record for record in ERRORS if record["case"] not in NO_SUCH_FLAG],
    ids=[record["case"] for record in ERRORS if record["case"] not in NO_SUCH_FLAG],
)
def test_our_verdict_and_fields_are_those_of_kueue(record: Json, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    if record["case"] != "file missing":
        file.write_text(text_of(record))
    if record["verdict"] == "accepted":
        load(file)
        return
    with pytest.raises(ConfigurationError) as refused:
        load(file)
    expected = FIELDS.get(record["case"]) or recorded_fields(record)
    assert expected, "the recording names a field"
    assert sorted(problem.field for problem in refused.value.problems) == sorted(expected)


def test_two_mistakes_of_the_recording_in_one_file_are_both_reported() -> None:
    """Whether decoding or validation finds them: neither hides the other."""
    trees = [record["config"] for record in ERRORS if isinstance(record["config"], dict)]
    alone = {id(tree): found_in(tree) for tree in trees}
    asked = 0
    for first, second in itertools.combinations(trees, 2):
        if not first.keys() & second.keys():
            asked += 1
            assert found_in({**first, **second}) == alone[id(first)] | alone[id(second)]
    assert asked > 400


def found_in(tree: Json) -> set[tuple[str, str]]:
    try:
        loads(yaml.safe_dump({**BASE, **copy.deepcopy(tree)}))
    except ConfigurationError as error:
        return {(problem.field, problem.message) for problem in error.problems}
    return set()


def test_a_derived_error_is_not_repeated_on_a_field_that_is_not_in_the_file() -> None:
    for case, field in DERIVED.items():
        record = next(record for record in ERRORS if record["case"] == case)
        assert field in record["prints"][0]["error"]
