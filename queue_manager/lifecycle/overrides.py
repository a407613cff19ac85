"""Annotations by which a Job overrides waitForPodsReady, within the bounds of the configuration.

    sluice/pods-ready-timeout: 10m    instead of waitForPodsReady.timeout
    sluice/requeuing-limit: "3"       instead of requeuingStrategy.backoffLimitCount

The annotations are copied from the Job to its Workload, and read there. Admission rejects malformed values and values
out of bounds. Where no admission runs, and after the bounds have changed, such a value is ignored. See
BEHAVIOUR.md#q24-overrides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from job_controller.api_rules.field_errors import FieldError, forbidden, invalid
from queue_manager import durations
from queue_manager.api import keys
from queue_manager.lifecycle.settings import Bounds, PodsReadySettings

KEYS = (keys.PODS_READY_TIMEOUT_OVERRIDE, keys.REQUEUING_LIMIT_OVERRIDE)
NOT_ALLOWED = "the configuration lets Jobs set nothing of waitForPodsReady; it has no waitForPodsReady.overrides"
MAX_INT32 = 2**31 - 1


def errors(annotations: Mapping[str, str], bounds: Bounds | None) -> list[FieldError]:
    """Every error in the overrides of a Job, with field paths. `bounds` None: overrides are not allowed."""
    found = [_check(key, annotations[key], bounds) for key in KEYS if key in annotations]
    return [error for error in found if error is not None]


def accepted(annotations: Mapping[str, str], bounds: Bounds | None) -> dict[str, str]:
    """The overrides that are valid and within `bounds`."""
    return {
        key: annotations[key] for key in KEYS if key in annotations and _check(key, annotations[key], bounds) is None
    }


def effective(settings: PodsReadySettings, annotations: Mapping[str, str]) -> PodsReadySettings:
    """The settings of one Workload; an override that is not accepted has no effect."""
    own = accepted(annotations, settings.bounds)
    if keys.PODS_READY_TIMEOUT_OVERRIDE in own:
        seconds = durations.parse(own[keys.PODS_READY_TIMEOUT_OVERRIDE]).total_seconds()
        settings = replace(settings, timeout=seconds)
    if keys.REQUEUING_LIMIT_OVERRIDE in own:
        settings = replace(settings, limit=int(own[keys.REQUEUING_LIMIT_OVERRIDE]))
    return settings


def _check(key: str, text: str, bounds: Bounds | None) -> FieldError | None:
    path = f"metadata.annotations[{key}]"
    if bounds is None:
        return forbidden(path, NOT_ALLOWED)
    wrong = _timeout(text, bounds) if key == keys.PODS_READY_TIMEOUT_OVERRIDE else _limit(text, bounds)
    return invalid(path, text, wrong) if wrong else None


def _timeout(text: str, bounds: Bounds) -> str:
    """What is wrong with the timeout, or ""."""
    try:
        seconds = durations.parse(text).total_seconds()
    except ValueError:
        return f"must be {durations.EXAMPLES}"
    least, most = bounds.min_timeout, bounds.max_timeout
    if seconds <= 0:
        return "must be greater than 0"
    if seconds < least or (most is not None and seconds > most):
        if most is None:
            return f"must be at least {_shown(least)}"
        return f"must be {f'from {_shown(least)} to' if least else 'at most'} {_shown(most)}"
    return ""


def _limit(text: str, bounds: Bounds) -> str:
    """What is wrong with the limit, or ""."""
    most = MAX_INT32 if bounds.max_limit is None else bounds.max_limit
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_INT32))):
        return f"must be an integer from 0 to {most}"
    return "" if int(text) <= most else f"must be an integer from 0 to {most}"


def _shown(seconds: float) -> str:
    return durations.render(timedelta(seconds=seconds))
