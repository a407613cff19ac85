"""From what a file says to the effective configuration, for both versions of the API (spec: kueue.md 2, 2b, 2c).

The versions differ where presence means something. In v1beta2 waitForPodsReady is on unless a feature gate
turns it off; in v1beta1 it is off until `enable`, and then times out earlier and blocks admission.
"""

# ruff: noqa: RUF009 - `setting` only wraps an immutable default

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal

from queue_manager.configuration import durations, features
from queue_manager.configuration.document import Findings
from queue_manager.configuration.kueue_config import (
    AdmissionFairSharing,
    FairSharing,
    KueueConfig,
    Overrides,
    RequeuingStrategy,
    WaitForPodsReady,
)
from queue_manager.configuration.selector import outside
from queue_manager.configuration.setting import MINUTE, setting

GROUP = "config.kueue.x-k8s.io"
V1BETA1, V1BETA2 = "v1beta1", "v1beta2"
KIND = "Configuration"
BOTH_STRATEGIES = FairSharing().preemption_strategies


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeuingStrategyFile:
    """requeuingStrategy as written. Its limits only count while waitForPodsReady is on."""

    timestamp: str = setting("Eviction or Creation.", "Eviction")
    backoff_limit_count: int | None = setting("After so many requeues it is deactivated.")
    backoff_base_seconds: int = setting("Seconds before the first retry.", 60)
    backoff_max_seconds: int = setting("The most seconds between two tries.", 3600)
    backoff_formula: Literal["Kueue", "KEP1282"] = setting("How the waits grow.", "Kueue")
    give_up_after: timedelta | None = setting("After this time without ready pods.", above=timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForPodsReadyFile:
    """waitForPodsReady as written."""

    enable: bool = setting("Whether it is on.", False, until=V1BETA1)
    timeout: timedelta | None = setting("From admission until all pods are ready.")
    block_admission: bool | None = setting("Admit nothing else meanwhile.")
    recovery_timeout: timedelta | None = setting("From the loss of a ready pod until all are ready again.")
    unschedulable_timeout: timedelta | None = setting("While no node can take pods.", above=timedelta(0))
    requeuing_strategy: RequeuingStrategyFile = setting("When it queues again.", RequeuingStrategyFile())
    overrides: Overrides | None = setting("Bounds of what Jobs may set.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharingFile:
    """fairSharing as written."""

    enable: bool = setting("Whether it is on.", False, until=V1BETA1)
    preemption_strategies: tuple[str, ...] = setting("Conditions of preemption.", ())


INSTEAD: Mapping[str, type] = MappingProxyType(
    {"wait_for_pods_ready": WaitForPodsReadyFile, "fair_sharing": FairSharingFile}
)
"""Sections that are read as written first, because absence and zero mean something."""


def complete(values: dict[str, Any], findings: Findings, own_namespace: str) -> KueueConfig:
    """The effective configuration. What cannot be is noted in `findings`; then the result is not to be used."""
    old = findings.version == V1BETA1
    namespace = values.setdefault("namespace", own_namespace)
    values.setdefault("managed_jobs_namespace_selector", outside(namespace))
    waiting: WaitForPodsReadyFile | None = values.get("wait_for_pods_ready")
    gates = values.get("feature_gates", {})
    values["wait_for_pods_ready"] = None
    if features.waits_for_pods_ready(gates):
        values["wait_for_pods_ready"] = _waiting_v1beta1(waiting, findings) if old else _waiting(waiting, findings)
    values["fair_sharing"] = _fair_sharing(values.get("fair_sharing"), findings)
    sharing: AdmissionFairSharing | None = values.get("admission_fair_sharing")
    if sharing is not None and not sharing.usage_sampling_interval:
        values["admission_fair_sharing"] = replace(sharing, usage_sampling_interval=5 * MINUTE)
    if old:
        values["visibility_server"] = None
    return KueueConfig(**values, ignored=tuple(findings.ignored))


def _waiting(written: WaitForPodsReadyFile | None, findings: Findings) -> WaitForPodsReady:
    written = written or WaitForPodsReadyFile()
    return _checked(written, written.timeout or 30 * MINUTE, bool(written.block_admission), findings)


def _waiting_v1beta1(written: WaitForPodsReadyFile | None, findings: Findings) -> WaitForPodsReady | None:
    if written is None or not (written.enable or findings.unread("waitForPodsReady.enable")):
        return None
    timeout = 5 * MINUTE if written.timeout is None else written.timeout
    if not timeout:
        findings.judge("waitForPodsReady.timeout", "must be specified; must be greater than 0")
    return _checked(written, timeout, written.block_admission is not False, findings)


def _checked(written: WaitForPodsReadyFile, timeout: timedelta, block: bool, findings: Findings) -> WaitForPodsReady:
    strategy = written.requeuing_strategy
    path = "waitForPodsReady"
    numbers: dict[str, Any] = {
        f"{path}.timeout": written.timeout,
        f"{path}.recoveryTimeout": written.recovery_timeout,
        f"{path}.requeuingStrategy.backoffLimitCount": strategy.backoff_limit_count,
        f"{path}.requeuingStrategy.backoffBaseSeconds": strategy.backoff_base_seconds,
        f"{path}.requeuingStrategy.backoffMaxSeconds": strategy.backoff_max_seconds,
    }
    for where, number in numbers.items():
        if number is not None and number < type(number)(0):
            findings.judge(where, "is negative; must be greater than or equal to 0")
    if strategy.timestamp not in ("Creation", "Eviction"):
        what = f'"{strategy.timestamp}" is not supported; must be "Creation" or "Eviction"'
        findings.judge(f"{path}.requeuingStrategy.timestamp", what)
    bounds = written.overrides
    if bounds is not None and bounds.max_timeout is not None and bounds.max_timeout < bounds.min_timeout:
        what = f"is less than minTimeout; must be at least {durations.render(bounds.min_timeout)}"
        findings.judge(f"{path}.overrides.maxTimeout", what)
    return WaitForPodsReady(
        timeout=timeout,
        block_admission=block,
        recovery_timeout=timeout if written.recovery_timeout is None else written.recovery_timeout,
        requeuing_strategy=RequeuingStrategy(
            timestamp="Creation" if strategy.timestamp == "Creation" else "Eviction",
            backoff_limit_count=strategy.backoff_limit_count,
            backoff_base_seconds=strategy.backoff_base_seconds,
            backoff_max_seconds=strategy.backoff_max_seconds,
            backoff_formula=strategy.backoff_formula,
            give_up_after=strategy.give_up_after,
        ),
        unschedulable_timeout=written.unschedulable_timeout,
        overrides=bounds,
    )


def _fair_sharing(written: FairSharingFile | None, findings: Findings) -> FairSharing | None:
    if written is None:
        return None
    strategies = written.preemption_strategies
    if findings.version == V1BETA1:
        if not (written.enable or findings.unread("fairSharing.enable")):
            return None
        strategies = strategies or BOTH_STRATEGIES
    for allowed in (BOTH_STRATEGIES[:1], BOTH_STRATEGIES[1:], BOTH_STRATEGIES):
        if strategies == allowed:
            return FairSharing(preemption_strategies=allowed)
    lists = ", ".join(f"[{', '.join(allowed)}]" for allowed in (BOTH_STRATEGIES[:1], BOTH_STRATEGIES[1:]))
    what = f"[{', '.join(strategies)}] is not supported" if strategies else "must be specified"
    path = "fairSharing.preemptionStrategies"
    findings.judge(path, f"{what}; must be {lists} or both in this order")
    return None
