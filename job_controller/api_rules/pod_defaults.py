"""Defaults of a pod spec (upstream pkg/apis/core/v1/defaults.go).

Runs for every pod created, so it walks the tree once and modifies only what is incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from job_controller.api_rules.pod_resources import default_pod_requests
from job_controller.api_rules.stored_form import tidy
from job_controller.json_tree import Json
from job_controller.quantities import MalformedQuantity, canonical, canonical_text, quantity

_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))
_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600


def default_pod_spec(spec: Json) -> None:
    """Default a pod spec in place: what templates and Pods have in common. Idempotent."""
    tidy(spec)
    for key in _CONTAINER_LISTS:
        for container in spec.get(key) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if not spec["restartPolicy"]:
        spec["restartPolicy"] = "Always"
    _default_service_account(spec)
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    if "overhead" in spec:
        write_canonically(spec["overhead"])
    if "resources" in spec:
        _default_resources(spec["resources"])


def default_pod(spec: Json) -> None:
    """Default the spec of a Pod in place: as default_pod_spec, and requests default to limits."""
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        resources = container["resources"]
        limits = resources.get("limits")
        if limits:
            requests = resources.setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)
    default_pod_requests(spec)


def write_canonically(amounts: dict[str, Any]) -> None:
    """Rewrite quantities in canonical form, in place; malformed ones are left for validation."""
    for name, amount in amounts.items():
        try:
            amounts[name] = canonical_text(amount) if amount.__class__ is str else canonical(quantity(amount or 0))
        except MalformedQuantity:
            continue


def _containers(spec: Json) -> Iterator[Json]:
    for key in _CONTAINER_LISTS:
        yield from spec.get(key) or ()


def _default_service_account(spec: Json) -> None:
    """Copy serviceAccountName to the deprecated field serviceAccount, or the reverse."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _default_host_ports(spec: Json) -> None:
    for container in _containers(spec):
        for port in container.get("ports") or ():
            if not port.get("hostPort") and port.get("containerPort"):
                port["hostPort"] = port["containerPort"]


def _default_container(container: Json) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = "Always" if is_latest(container.get("image", "")) else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("name", "")
    resources = container.setdefault("resources", {})
    if resources:
        _default_resources(resources)
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source:
            _default_field_source(source)
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    if "lifecycle" in container:
        for hook in container["lifecycle"].values():
            _default_http(hook)


def _default_resources(resources: Json) -> None:
    for name in ("limits", "requests"):
        if name in resources:
            write_canonically(resources[name])


def is_latest(image: str) -> bool:
    """Whether an image reference means the tag `latest`: explicitly, or without tag and digest."""
    if "@" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _default_field_source(source: Json) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "resourceFieldRef" in source:
        reference = source["resourceFieldRef"]
        reference.setdefault("divisor", "0")
        write_quantity_canonically(reference, "divisor")
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def write_quantity_canonically(node: Json, key: str) -> None:
    """Rewrite one quantity field in canonical form, in place."""
    amount = {key: node[key]}
    write_canonically(amount)
    node[key] = amount[key]


def _default_probe(probe: Json) -> None:
    for name, value in _PROBE_NUMBERS:
        probe.setdefault(name, value)
    _default_http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(handler: Json) -> None:
    if handler.__class__ is dict and "httpGet" in handler:
        request = handler["httpGet"]
        request["path"] = request.get("path") or "/"
        request.setdefault("scheme", "HTTP")


# --- volumes -----------------------------------------------------------------------------------------------


def _default_volume(volume: Json) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
        return
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if kind in volume:
            volume[kind].setdefault("defaultMode", _FILE_MODE)
    if "emptyDir" in volume and "sizeLimit" in volume["emptyDir"]:
        write_quantity_canonically(volume["emptyDir"], "sizeLimit")
    if "downwardAPI" in volume:
        _default_downward(volume["downwardAPI"])
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "iscsi" in volume:
        volume["iscsi"].setdefault("iscsiInterface", "default")
    if "ephemeral" in volume:
        claim = volume["ephemeral"].get("volumeClaimTemplate")
        if claim is not None:
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    if "projected" in volume:
        _default_projected(volume["projected"])


def _default_projected(projected: Json) -> None:
    for source in projected.get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
        if "downwardAPI" in source:
            _default_downward(source["downwardAPI"])


def _default_downward(downward: Json) -> None:
    for item in downward.get("items") or ():
        _default_field_source(item)
