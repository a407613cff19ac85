"""Computes the effective configuration from the fields of a file, with the defaults of the file's API version.

The versions differ where presence has a meaning. In v1beta2 waitForPodsReady is on unless a feature gate switches it
off; in v1beta1 it is off until `enable`, and then has a shorter timeout and blocks admission (Kueue's
apis/config/v1beta1 and v1beta2, `SetDefaults_Configuration`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from queue_manager import durations
from queue_manager.configuration import feature_gates
from queue_manager.configuration.config_field_types import MINUTE, V1BETA1, V1BETA2
from queue_manager.configuration.kueue_config import STRATEGIES, FairSharing, KueueConfig, WaitForPodsReady
from queue_manager.configuration.quoted_text import plain
from queue_manager.configuration.selector_fields import outside
from queue_manager.configuration.yaml_places import Findings

GROUP = "config.kueue.x-k8s.io"
KIND = "Configuration"
API_VERSIONS = {f"{GROUP}/{version}": version for version in (V1BETA2, V1BETA1)}


BOUND_WHILE_ENABLED = frozenset(
    f"waitForPodsReady.{name}"
    for name in (
        "timeout",
        "recoveryTimeout",
        "requeuingStrategy.timestamp",
        "requeuingStrategy.backoffLimitCount",
        "requeuingStrategy.backoffBaseSeconds",
        "requeuingStrategy.backoffMaxSeconds",
    )
)
"""Fields whose bounds count only while waitForPodsReady is on (Kueue's `config.validateWaitForPodsReady`)."""


def complete(
    written: KueueConfig, findings: Findings, own_namespace: str, namespaces: Collection[str] = ()
) -> KueueConfig:
    """The effective configuration. Problems are added to `findings`; with problems the result must not be used.

    `namespaces`: the only ones that are managed, selected by default even if the manager's own is among them.
    """
    given = written.model_fields_set
    namespace = written.namespace if "namespace" in given else own_namespace
    values: dict[str, Any] = {
        "namespace": namespace,
        "wait_for_pods_ready": _wait_for_pods_ready(written, findings),
        "fair_sharing": _fair_sharing(written.fair_sharing, findings),
    }
    if "managed_jobs_namespace_selector" not in given:
        values["managed_jobs_namespace_selector"] = outside() if namespace in namespaces else outside(namespace)
    sharing = written.admission_fair_sharing
    if sharing is not None and not sharing.usage_sampling_interval:
        values["admission_fair_sharing"] = sharing.model_copy(update={"usage_sampling_interval": 5 * MINUTE})
    if findings.version == V1BETA1:
        values["visibility_server"] = None
    config = written.model_copy(update=values)
    config._ignored = tuple(findings.ignored)
    config._lines = {path: place.line for path, place in findings.places.items()}
    return config


def waits_for_pods_ready(written: KueueConfig, version: str, *, unread: bool) -> bool:
    """Whether waitForPodsReady is on. `unread`: `enable` was unreadable, which counts as on, so that its section is
    checked."""
    if not feature_gates.waits_for_pods_ready(written.feature_gates):
        return False
    if version == V1BETA2:
        return True
    section = written.wait_for_pods_ready if "wait_for_pods_ready" in written.model_fields_set else None
    return section is not None and (section.enable or unread)


def _wait_for_pods_ready(written: KueueConfig, findings: Findings) -> WaitForPodsReady | None:
    path = "waitForPodsReady"
    if not waits_for_pods_ready(written, findings.version, unread=findings.unread(f"{path}.enable")):
        return None
    section = written.wait_for_pods_ready or WaitForPodsReady()
    given = section.model_fields_set
    timeout, block = section.timeout or 30 * MINUTE, section.block_admission
    if findings.version == V1BETA1:
        timeout = section.timeout if "timeout" in given else 5 * MINUTE
        block = section.block_admission if "block_admission" in given else True
        if not timeout:
            findings.reject(f"{path}.timeout", "must be specified; must be greater than 0")
    bounds = section.overrides
    if bounds is not None and bounds.max_timeout is not None and bounds.max_timeout < bounds.min_timeout:
        what = f"is less than minTimeout; must be at least {durations.render(bounds.min_timeout)}"
        findings.reject(f"{path}.overrides.maxTimeout", what)
    recovery = section.recovery_timeout if "recovery_timeout" in given else timeout
    values = {"enable": False, "timeout": timeout, "block_admission": block, "recovery_timeout": recovery}
    return section.model_copy(update=values)


def _fair_sharing(section: FairSharing | None, findings: Findings) -> FairSharing | None:
    """Return the section if its strategies are one, or both in Kueue's order; else report a problem."""
    if section is None:
        return None
    given = section.preemption_strategies if "preemption_strategies" in section.model_fields_set else ()
    if findings.version == V1BETA1:
        if not (section.enable or findings.unread("fairSharing.enable")):
            return None
        given = given or STRATEGIES
    if given in (STRATEGIES[:1], STRATEGIES[1:], STRATEGIES):
        return FairSharing(preemption_strategies=given)
    what = f"[{', '.join(map(plain, given))}] is not supported" if given else "must be specified"
    alone = ", ".join(f"[{strategy}]" for strategy in STRATEGIES)
    findings.reject("fairSharing.preemptionStrategies", f"{what}; must be {alone} or both in this order")
    return None
