"""Annotations by which a Job overrides the configuration, within the bounds of the configuration.

    sluice/pods-ready-timeout: 10m    instead of waitForPodsReady.timeout
    sluice/requeuing-limit: "3"       instead of requeuingStrategy.backoffLimitCount
    sluice/min-runtime: 30m           for so long after each admission the Workload is not preempted

The annotations are copied from the Job to its Workload, and read there. A minimum runtime may also be an annotation of
the Job's WorkloadPriorityClass; that of the Job takes precedence. Admission rejects malformed values and values out of
bounds in both. Where no admission runs, and after the bounds have changed, such a value is ignored, but a minimum
runtime beyond its bound counts up to it. See BEHAVIOUR.md#q24-overrides and BEHAVIOUR.md#q53-minimum-runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from math import inf

from job_controller.api_rules.field_errors import FieldError, forbidden, invalid
from queue_manager import durations
from queue_manager.api import keys
from queue_manager.lifecycle.workload_settings import Bounds, PodsReadyBounds, PodsReadySettings

KEYS = (keys.PODS_READY_TIMEOUT_OVERRIDE, keys.REQUEUING_LIMIT_OVERRIDE, keys.MIN_RUNTIME)
OF_CLASSES = (keys.MIN_RUNTIME,)  # those that a WorkloadPriorityClass may have for its Jobs
NOT_ALLOWED = "the configuration lets Jobs set nothing of waitForPodsReady; it has no waitForPodsReady.overrides"
NO_MIN_RUNTIME = "the configuration lets no Job forbid its preemption; it has no preemption.maxMinRuntime"
MAX_INT32 = 2**31 - 1


def errors(annotations: Mapping[str, str], bounds: Bounds) -> list[FieldError]:
    """Every error in the overrides of a Job, with field paths."""
    found = [_check(key, annotations[key], bounds) for key in KEYS if key in annotations]
    return [error for error in found if error is not None]


def of_class(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a WorkloadPriorityClass that hold for its Jobs, unless these have their own."""
    return {key: annotations[key] for key in OF_CLASSES if key in annotations}


def accepted(annotations: Mapping[str, str], bounds: Bounds) -> dict[str, str]:
    """The overrides that are valid and within `bounds`; also a minimum runtime beyond them, which counts up to them."""
    kept = replace(bounds, max_min_runtime=inf) if bounds.max_min_runtime is not None else bounds
    return {key: annotations[key] for key in KEYS if key in annotations and _check(key, annotations[key], kept) is None}


def effective(settings: PodsReadySettings, annotations: Mapping[str, str]) -> PodsReadySettings:
    """The settings of one Workload; an override that is not accepted has no effect."""
    own = accepted(annotations, Bounds(settings.bounds))
    if keys.PODS_READY_TIMEOUT_OVERRIDE in own:
        seconds = durations.parse(own[keys.PODS_READY_TIMEOUT_OVERRIDE]).total_seconds()
        settings = replace(settings, timeout=seconds)
    if keys.REQUEUING_LIMIT_OVERRIDE in own:
        settings = replace(settings, limit=int(own[keys.REQUEUING_LIMIT_OVERRIDE]))
    return settings


def _check(key: str, text: str, bounds: Bounds) -> FieldError | None:
    path, allowed = f"metadata.annotations[{key}]", bounds.pods_ready
    if key == keys.MIN_RUNTIME:
        if bounds.max_min_runtime is None:
            return forbidden(path, NO_MIN_RUNTIME)
        wrong = _duration(text, 0, bounds.max_min_runtime)
    elif allowed is None:
        return forbidden(path, NOT_ALLOWED)
    elif key == keys.PODS_READY_TIMEOUT_OVERRIDE:
        wrong = _duration(text, allowed.min_timeout, allowed.max_timeout)
    else:
        wrong = _limit(text, allowed)
    return invalid(path, text, wrong) if wrong else None


def _duration(text: str, least: float, most: float | None) -> str:
    """Return what is wrong with the text of a duration, or "". Bounds in seconds; `most` None: no bound."""
    try:
        seconds = durations.parse(text).total_seconds()
    except ValueError:
        return f"must be {durations.EXAMPLES}"
    if seconds <= 0:
        return "must be greater than 0"
    if seconds < least or (most is not None and seconds > most):
        if most is None:
            return f"must be at least {_shown(least)}"
        return f"must be {f'from {_shown(least)} to' if least else 'at most'} {_shown(most)}"
    return ""


def _limit(text: str, bounds: PodsReadyBounds) -> str:
    """Return what is wrong with the text of a limit, or ""."""
    most = MAX_INT32 if bounds.max_limit is None else bounds.max_limit
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_INT32))):
        return f"must be an integer from 0 to {most}"
    return "" if int(text) <= most else f"must be an integer from 0 to {most}"


def _shown(seconds: float) -> str:
    return durations.render(timedelta(seconds=seconds))
