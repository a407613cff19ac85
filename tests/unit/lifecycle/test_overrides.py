"""Settings of waitForPodsReady that annotations of a Job may override."""

import pytest

from queue_manager.lifecycle import overrides
from queue_manager.lifecycle.workload_settings import Bounds, PodsReadyBounds, PodsReadySettings

TIMEOUT, LIMIT, MIN_RUNTIME = "sluice/pods-ready-timeout", "sluice/requeuing-limit", "sluice/min-runtime"
BOUNDS = PodsReadyBounds(min_timeout=60, max_timeout=7200, max_limit=10)
PATH = "metadata.annotations"


@pytest.mark.parametrize(
    ("key", "text", "bounds", "message"),
    [
        (TIMEOUT, "soon", BOUNDS, 'must be a duration such as "30s", "5m" or "1h30m"'),
        (TIMEOUT, "90", BOUNDS, 'must be a duration such as "30s", "5m" or "1h30m"'),
        (TIMEOUT, "30s", BOUNDS, "must be from 1m0s to 2h0m0s"),
        (TIMEOUT, "3h", BOUNDS, "must be from 1m0s to 2h0m0s"),
        (TIMEOUT, "3h", PodsReadyBounds(max_timeout=7200), "must be at most 2h0m0s"),
        (TIMEOUT, "1s", PodsReadyBounds(min_timeout=60), "must be at least 1m0s"),
        (TIMEOUT, "0s", PodsReadyBounds(), "must be greater than 0"),
        (TIMEOUT, "-5m", PodsReadyBounds(), "must be greater than 0"),
        (LIMIT, "11", BOUNDS, "must be an integer from 0 to 10"),
        (LIMIT, "-1", BOUNDS, "must be an integer from 0 to 10"),
        (LIMIT, "x", BOUNDS, "must be an integer from 0 to 10"),
        (LIMIT, "9" * 5000, PodsReadyBounds(), "must be an integer from 0 to 2147483647"),
    ],
)
def test_a_refusal_names_the_field_and_what_is_allowed(key, text, bounds, message):
    (error,) = overrides.errors({key: text}, Bounds(bounds))
    assert error.field == f"{PATH}[{key}]"
    assert error.reason == "FieldValueInvalid"
    assert error.message.endswith(f": {message}")
    settings = PodsReadySettings(bounds=bounds)
    assert overrides.effective(settings, {key: text}) == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1h1s", "must be at most 1h0m0s"),
        ("0s", "must be greater than 0"),
        ("-5m", "must be greater than 0"),
        ("30", 'must be a duration such as "30s", "5m" or "1h30m"'),
    ],
)
def test_a_minimum_runtime_beyond_the_bound_is_refused_with_its_field(text, message):
    bounds = Bounds(max_min_runtime=3600)
    (error,) = overrides.errors({MIN_RUNTIME: text}, bounds)
    assert (error.reason, error.field) == ("FieldValueInvalid", f"{PATH}[{MIN_RUNTIME}]")
    assert error.message.endswith(f": {message}")
    assert overrides.accepted({MIN_RUNTIME: text}, bounds) == ({MIN_RUNTIME: text} if text == "1h1s" else {})
    assert overrides.accepted({MIN_RUNTIME: "1h"}, bounds) == {MIN_RUNTIME: "1h"}


def test_each_annotation_is_allowed_by_its_own_section():
    both = {TIMEOUT: "5m", MIN_RUNTIME: "5m"}
    assert overrides.accepted(both, Bounds(max_min_runtime=3600)) == {MIN_RUNTIME: "5m"}
    assert overrides.accepted(both, Bounds(BOUNDS)) == {TIMEOUT: "5m"}
    (error,) = overrides.errors(both, Bounds(BOUNDS))
    assert (error.reason, error.field) == ("FieldValueForbidden", f"{PATH}[{MIN_RUNTIME}]")
    assert "preemption.maxMinRuntime" in error.message


def test_without_bounds_a_job_may_set_nothing():
    errors = overrides.errors({TIMEOUT: "5m", LIMIT: "3", "other": "x"}, Bounds())
    assert [(e.reason, e.field) for e in errors] == [
        ("FieldValueForbidden", f"{PATH}[{TIMEOUT}]"),
        ("FieldValueForbidden", f"{PATH}[{LIMIT}]"),
    ]
    assert "waitForPodsReady.overrides" in errors[0].message


def test_overrides_within_bounds_replace_the_configured_values():
    own = overrides.effective(PodsReadySettings(bounds=BOUNDS, limit=None), {TIMEOUT: "1m30s", LIMIT: "0"})
    assert (own.timeout, own.limit) == (90, 0)


def test_an_invalid_override_does_not_disable_the_other():
    own = overrides.effective(PodsReadySettings(bounds=BOUNDS, timeout=100, limit=5), {TIMEOUT: "1s", LIMIT: "2"})
    assert (own.timeout, own.limit) == (100, 2)
