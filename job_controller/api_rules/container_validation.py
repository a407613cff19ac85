"""Validation of the containers of a pod spec: names, images, ports, environment, mounts, probes, security.

Source: upstream pkg/apis/core/validation, validateContainers and validateInitContainers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from job_controller.api_rules.resource_validation import validate_resources
from job_controller.api_rules.volume_validation import local_path_errors
from job_controller.go_text import NOT_NEGATIVE
from job_controller.json_tree import Json

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_LIFECYCLE_FIELDS = frozenset(("lifecycle", *_PROBES))
_SCHEMES = ("HTTP", "HTTPS")
_PROC_MOUNTS = ("Default", "Unmasked")
_ONLY_SIDECARS = "may not be set for init containers without restartPolicy=Always"
_ONE_SOURCE = "may not have more than one field specified at a time"
ID_RANGE = "must be between 0 and 2147483647, inclusive"

_DOWNWARD_LABELS = frozenset(
    [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.host",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    ]
)
_ENVIRONMENT_LABELS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)


class ContainerScope(NamedTuple):
    """What the containers of a pod spec may refer to.

    `volumes` and `claims` are the valid names; `in_pod` is false for a template; `grace_seconds` is
    terminationGracePeriodSeconds; `user_namespace` is true with hostUsers=false.
    """

    volumes: Collection[str]
    claims: Collection[str]
    in_pod: bool
    grace_seconds: int
    user_namespace: bool


def validate_containers(containers: Json, scope: ContainerScope, path: str) -> list[FieldError]:
    """The errors of `spec.containers`; at least one container is required."""
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    ports = False
    for i, container in enumerate(containers):
        at = f"{path}[{i}]"
        errors += _validate_common(container, scope, at)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
        if not _LIFECYCLE_FIELDS.isdisjoint(container):
            errors += _validate_lifecycle(container, scope.grace_seconds, at)
        if "restartPolicy" in container:
            errors += _validate_restart_policy(container, at)
        ports = ports or "ports" in container
    return errors + _host_port_conflicts(containers, path) if ports else errors


def validate_init_containers(containers: Json, regular: Json, scope: ContainerScope, path: str) -> list[FieldError]:
    """The errors of `spec.initContainers`. `regular`: the containers, whose names must differ."""
    errors: list[FieldError] = []
    seen = {container.get("name", "") for container in regular or ()}
    for i, container in enumerate(containers):
        at = f"{path}[{i}]"
        errors += _validate_common(container, scope, at)
        errors += _validate_restart_policy(container, at)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        elif name:
            seen.add(name)
        errors += _host_port_conflicts([container], path)
        if container.get("restartPolicy") == "Always":
            errors += _validate_lifecycle(container, scope.grace_seconds, at)
        else:
            for field in ("lifecycle", *_PROBES):
                if field in container:
                    errors.append(forbidden(f"{at}.{field}", _ONLY_SIDECARS))
    return errors


def _validate_common(container: Json, scope: ContainerScope, path: str) -> list[FieldError]:
    errors = _validate_name_and_image(container, scope.in_pod, path)
    policy = container.get("terminationMessagePolicy", "")
    if policy not in _MESSAGE_POLICIES:
        errors.append(_one_of(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    if "ports" in container:
        errors += _validate_ports(container["ports"], f"{path}.ports")
    if "env" in container:
        errors += _validate_environment(container["env"], f"{path}.env")
    if "envFrom" in container:
        errors += _validate_environment_sources(container["envFrom"], f"{path}.envFrom")
    if "volumeMounts" in container:
        errors += _validate_mounts(container, scope.volumes, f"{path}.volumeMounts")
    pull = container.get("imagePullPolicy", "")
    if pull not in _PULL_POLICIES:
        errors.append(_one_of(f"{path}.imagePullPolicy", pull, _PULL_POLICIES))
    if container.get("resources"):
        errors += validate_resources(container["resources"], scope.claims, f"{path}.resources")
    if "securityContext" in container:
        errors += _validate_security(container["securityContext"], f"{path}.securityContext", scope.user_namespace)
    return errors


def _validate_name_and_image(container: Json, in_pod: bool, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        errors.append(required(f"{path}.name"))
    elif texts := names.dns_label(name):
        errors += [invalid(f"{path}.name", name, text) for text in texts]
    if not image:
        errors.append(required(f"{path}.image"))
    elif in_pod and image != image.strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    return errors


def _one_of(path: str, value: str, allowed: tuple[str, ...]) -> FieldError:
    return not_supported(path, value, allowed) if value else required(path)


def _validate_restart_policy(container: Json, path: str) -> list[FieldError]:
    policy = container.get("restartPolicy")
    if policy is None or policy in _RESTART_POLICIES:
        return []
    return [not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)]


# --- ports -------------------------------------------------------------------------------------------------


def _validate_ports(ports: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, port in enumerate(ports):
        at = f"{path}[{i}]"
        name, protocol = port.get("name", ""), port.get("protocol", "")
        texts = names.port_name(name) if name else []
        errors += [invalid(f"{at}.name", name, text) for text in texts]
        if name and not texts:
            if name in seen:
                errors.append(duplicate(f"{at}.name", name))
            seen.add(name)
        number = port.get("containerPort") or 0
        if number == 0:
            errors.append(required(f"{at}.containerPort"))
        else:
            errors += [invalid(f"{at}.containerPort", number, text) for text in names.port_number(number)]
        number = port.get("hostPort") or 0
        if number:
            errors += [invalid(f"{at}.hostPort", number, text) for text in names.port_number(number)]
        if protocol not in _PROTOCOLS:
            errors.append(_one_of(f"{at}.protocol", protocol, _PROTOCOLS))
    return errors


def _host_port_conflicts(containers: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in seen:
                errors.append(duplicate(f"{path}[{i}].ports[{j}].hostPort", key))
            seen.add(key)
    return errors


# --- environment -------------------------------------------------------------------------------------------


def _validate_environment(variables: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for i, variable in enumerate(variables):
        at = f"{path}[{i}]"
        name = variable.get("name", "")
        if not name:
            errors.append(required(f"{at}.name"))
        elif texts := names.environment_name(name):
            errors += [invalid(f"{at}.name", name, text) for text in texts]
        if "valueFrom" in variable:
            errors += _validate_source(variable, f"{at}.valueFrom")
    return errors


def _validate_source(variable: Json, path: str) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    if "fieldRef" in source:
        errors += _validate_field_reference(source["fieldRef"], f"{path}.fieldRef")
    if "resourceFieldRef" in source and not source["resourceFieldRef"].get("resource"):
        errors.append(required(f"{path}.resourceFieldRef.resource"))
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            name = source[kind].get("name", "")
            errors += [invalid(f"{path}.{kind}.name", name, text) for text in names.dns_subdomain(name)]
            errors += _validate_key(source[kind].get("key", ""), f"{path}.{kind}.key")
    if not source:
        kinds = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", f"must specify one of: {kinds}"))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        errors.append(invalid(path, "", _ONE_SOURCE))
    return errors


def _validate_key(key: str, path: str) -> list[FieldError]:
    return [invalid(path, key, text) for text in names.config_key(key)] if key else [required(path)]


def _validate_field_reference(reference: Json, path: str) -> list[FieldError]:
    """The errors of a fieldRef of an environment variable, which supports fewer fields than a downwardAPI volume."""
    if not reference.get("apiVersion"):
        return [required(f"{path}.apiVersion")]
    label = reference.get("fieldPath", "")
    if not label:
        return [required(f"{path}.fieldPath")]
    head, bracket, tail = label.partition("['")
    if bracket and tail.endswith("']"):
        return _validate_subscript(head, tail[:-2], path)
    if label not in _DOWNWARD_LABELS:
        return [invalid(f"{path}.fieldPath", label, f"error converting fieldPath: field label not supported: {label}")]
    if label not in _ENVIRONMENT_LABELS:
        return [not_supported(f"{path}.fieldPath", label, _ENVIRONMENT_LABELS)]
    return []


def _validate_subscript(head: str, key: str, path: str) -> list[FieldError]:
    if head == "metadata.annotations":
        return [invalid(path, key, text) for text in names.qualified_name(key.lower())]
    if head == "metadata.labels":
        return [invalid(path, key, text) for text in names.qualified_name(key)]
    return [invalid(path, head, "does not support subscript")]


def _validate_environment_sources(sources: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for i, source in enumerate(sources):
        at = f"{path}[{i}]"
        prefix = source.get("prefix", "")
        if prefix:
            errors += [invalid(f"{at}.prefix", prefix, text) for text in names.environment_name(prefix)]
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in kinds:
            if not source[kind].get("name"):
                errors.append(required(f"{at}.{kind}.name"))
        if not kinds:
            errors.append(invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(kinds) > 1:
            errors.append(invalid(at, "", _ONE_SOURCE))
    return errors


# --- mounts, probes, security ------------------------------------------------------------------------------


def _validate_mounts(container: Json, volumes: Collection[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, mount in enumerate(container["volumeMounts"]):
        at = f"{path}[{i}]"
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        if name not in volumes:
            errors.append(not_found(f"{at}.name", name))
        if not target:
            errors.append(required(f"{at}.mountPath"))
        if target in seen:
            errors.append(invalid(f"{at}.mountPath", target, "must be unique"))
        seen.add(target)
        errors += _validate_subpaths(mount, at, path)
        if "mountPropagation" in mount:
            errors += _validate_propagation(mount["mountPropagation"], container, f"{path}.mountPropagation")
    return errors


def _validate_subpaths(mount: Json, at: str, path: str) -> list[FieldError]:
    plain, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    errors = local_path_errors(plain, f"{path}.subPath") if plain else []
    if expression:
        if plain:
            text = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{at}.subPathExpr", expression, text))
        errors += local_path_errors(expression, f"{path}.subPathExpr")
    return errors


def _validate_propagation(mode: str, container: Json, path: str) -> list[FieldError]:
    if mode not in _PROPAGATIONS:
        return [not_supported(path, mode, _PROPAGATIONS)]
    if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        return [forbidden(path, "Bidirectional mount propagation is available only to privileged containers")]
    return []


def _validate_lifecycle(container: Json, grace_seconds: int, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for hook, handler in (container.get("lifecycle") or {}).items():
        if isinstance(handler, dict):
            errors += _validate_handler(handler, (*_HANDLERS[:3], "sleep"), f"{path}.lifecycle.{hook}")
            seconds = (handler.get("sleep") or {}).get("seconds") or 0
            if not 0 <= seconds <= grace_seconds:
                text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
                errors.append(invalid(f"{path}.lifecycle.{hook}.sleep", seconds, text))
    for name in _PROBES:
        if name in container:
            errors += _validate_probe(container[name], name, f"{path}.{name}")
    return errors


def _validate_probe(probe: Json, kind: str, path: str) -> list[FieldError]:
    errors = _validate_handler(probe, _HANDLERS, path)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        value = probe.get(field) or 0
        if value < 0:
            errors.append(invalid(f"{path}.{field}", value, NOT_NEGATIVE))
    grace_seconds = probe.get("terminationGracePeriodSeconds")
    if grace_seconds is not None and kind == "readinessProbe":
        errors.append(
            invalid(f"{path}.terminationGracePeriodSeconds", grace_seconds, "must not be set for readinessProbes")
        )
    elif grace_seconds is not None and grace_seconds <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace_seconds, "must be greater than 0"))
    if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        errors.append(invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))
    return errors


def _validate_handler(handler: Json, kinds: tuple[str, ...], path: str) -> list[FieldError]:
    given = [kind for kind in kinds if kind in handler]
    if not given:
        return [required(path, "must specify a handler type")]
    errors = [forbidden(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in given[1:]]
    kind, action = given[0], handler[given[0]]
    at = f"{path}.{kind}"
    if kind == "exec" and not action.get("command"):
        errors.append(required(f"{at}.command"))
    if kind == "httpGet":
        if not action.get("path"):
            errors.append(required(f"{at}.path"))
        if action.get("scheme") not in _SCHEMES:
            errors.append(not_supported(f"{at}.scheme", action.get("scheme", ""), _SCHEMES))
    if kind in ("httpGet", "tcpSocket", "grpc"):
        errors += list(_port_errors(action.get("port", 0), f"{at}.port"))
    return errors


def _port_errors(port: int | str, path: str) -> Iterator[FieldError]:
    texts = names.port_name(port) if isinstance(port, str) else names.port_number(port or 0)
    return (invalid(path, port, text) for text in texts)


def _validate_security(context: Json, path: str, user_namespace: bool) -> list[FieldError]:
    errors = [
        invalid(f"{path}.{field}", context[field], ID_RANGE)
        for field in ("runAsUser", "runAsGroup")
        if context.get(field) is not None and not 0 <= context[field] <= 2**31 - 1
    ]
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, context, text))
    if context.get("procMount") is not None:
        mount, at = context["procMount"], f"{path}.procMount"
        if mount not in _PROC_MOUNTS:
            errors.append(not_supported(at, mount, _PROC_MOUNTS))
        elif mount == "Unmasked" and not user_namespace:
            errors.append(invalid(at, mount, "`hostUsers` must be false to use `Unmasked`"))
    return errors
