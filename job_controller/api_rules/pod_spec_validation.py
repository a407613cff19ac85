"""Validation of a pod spec, in the order of upstream ValidatePodSpec."""

from __future__ import annotations

import re
from ipaddress import ip_address

from job_controller.api_rules import names
from job_controller.api_rules.container_validation import (
    ID_RANGE,
    ContainerScope,
    validate_containers,
    validate_init_containers,
)
from job_controller.api_rules.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from job_controller.api_rules.label_selectors import validate_label_map
from job_controller.api_rules.placement_validation import (
    label_name,
    validate_affinity,
    validate_gates,
    validate_spread,
    validate_tolerations,
)
from job_controller.api_rules.pod_resources import validate_pod_resources
from job_controller.api_rules.resource_validation import validate_resources
from job_controller.api_rules.volume_validation import validate_volumes
from job_controller.json_tree import Json

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_OPERATING_SYSTEMS = ("linux", "windows")
_INT32_MAX = 2**31 - 1
_PLACEMENT = frozenset(
    ("affinity", "dnsConfig", "readinessGates", "schedulingGates", "topologySpreadConstraints", "hostUsers")
)
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_HOST_SYSCTLS = {"hostNetwork": ("net.",), "hostIPC": ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")}
_NAMED = frozenset(
    (
        "serviceAccountName",
        "nodeName",
        "activeDeadlineSeconds",
        "hostname",
        "subdomain",
        "tolerations",
        "hostAliases",
        "priorityClassName",
        "runtimeClassName",
        "preemptionPolicy",
        "overhead",
        "os",
    )
)


def validate_pod_spec(spec: Json, path: str = "spec", *, in_pod: bool = False) -> list[FieldError]:
    """The errors of a defaulted pod spec. `in_pod` adds the rules for Pods that templates are exempt from."""
    volumes: set[str] = set()
    claims: set[str] = set()
    errors: list[FieldError] = []
    if "volumes" in spec:
        volumes, errors = validate_volumes(spec["volumes"], f"{path}.volumes")
    if spec.get("resourceClaims"):
        claims = {claim["name"] for claim in spec["resourceClaims"] if claim.get("name")}
        errors += _validate_claims(spec["resourceClaims"], f"{path}.resourceClaims")
    grace = spec.get("terminationGracePeriodSeconds", 30)
    scope = ContainerScope(volumes, claims, in_pod, grace, user_namespace=spec.get("hostUsers") is False)
    errors += validate_containers(spec.get("containers"), scope, f"{path}.containers")
    if "initContainers" in spec:
        at = f"{path}.initContainers"
        errors += validate_init_containers(spec["initContainers"], spec.get("containers"), scope, at)
    if spec.get("resources"):
        errors += validate_pod_resources(spec, claims, path)
    if spec.get("hostNetwork"):
        errors += _validate_host_ports(spec.get("containers") or (), in_pod, f"{path}.containers")
    if spec.get("restartPolicy") not in RESTART_POLICIES or spec.get("dnsPolicy") not in _DNS_POLICIES:
        errors += _validate_policies(spec, path)
    if "nodeSelector" in spec:
        errors += validate_label_map(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("securityContext"):
        errors += _validate_security(spec, f"{path}.securityContext")
    # Skipped for most pods: this runs for every pod created.
    if not _PLACEMENT.isdisjoint(spec) or spec.get("dnsPolicy") == "None":
        errors += _validate_placement(spec, path)
    if not _NAMED.isdisjoint(spec):
        errors += _validate_names(spec, path)
    if in_pod and spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def _validate_claims(claims: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for i, claim in enumerate(claims):
        at, name = f"{path}[{i}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{at}.name"))
        elif name in seen:
            errors.append(duplicate(f"{at}.name", name))
        else:
            errors += [invalid(f"{at}.name", name, text) for text in names.dns_label(name)]
        seen.add(name)
        given = [field for field in sources if claim.get(field) is not None]
        if len(given) > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(at, claim, text))
        elif not given:
            errors.append(invalid(at, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
        for field in given:
            errors += [invalid(f"{at}.{field}", claim[field], text) for text in names.dns_subdomain(claim[field])]
    return errors


def _validate_host_ports(containers: Json, in_pod: bool, path: str) -> list[FieldError]:
    text = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"{path}[{i}].ports[{j}].hostPort", port.get("hostPort") or 0, text)
        for i, container in enumerate(containers)
        for j, port in enumerate(container.get("ports") or ())
        if (in_pod or port.get("hostPort")) and (port.get("hostPort") or 0) != (port.get("containerPort") or 0)
    ]


def _validate_policies(spec: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, allowed in (("restartPolicy", RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        value = spec.get(field, "")
        if value not in allowed:
            at = f"{path}.{field}"
            errors.append(not_supported(at, value, allowed) if value else required(at))
    return errors


def _validate_security(spec: Json, path: str) -> list[FieldError]:
    context = spec["securityContext"]
    given = [(field, context[field]) for field in ("fsGroup", "runAsUser", "runAsGroup") if field in context]
    given += [(f"supplementalGroups[{i}]", group) for i, group in enumerate(context.get("supplementalGroups") or ())]
    errors = [invalid(f"{path}.{field}", number, ID_RANGE) for field, number in given if not 0 <= number <= _INT32_MAX]
    return errors + _validate_sysctls(spec, f"{path}.sysctls") if context.get("sysctls") else errors


def _validate_sysctls(spec: Json, path: str) -> list[FieldError]:
    """The errors of sysctls: malformed names, and settings of namespaces that the pod shares with its host. Slashes
    separate like dots.
    """
    errors: list[FieldError] = []
    for i, sysctl in enumerate(spec["securityContext"]["sysctls"]):
        name, at = sysctl.get("name", ""), f"{path}[{i}].name"
        if not name:
            errors.append(required(at))
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            errors.append(invalid(at, name, f"must have at most 253 characters and match regex ^{_SYSCTL.pattern}$"))
        else:
            first = re.search("[./]", name)
            dotted = name.replace("/", ".") if first and first[0] == "/" else name
            for field, prefixes in _HOST_SYSCTLS.items():
                if spec.get(field) and dotted.startswith(prefixes):
                    errors.append(invalid(at, name, f"may not be specified when '{field}' is true"))
    return errors


def _validate_placement(spec: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "affinity" in spec:
        errors += validate_affinity(spec["affinity"], f"{path}.affinity")
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        errors += _validate_dns(spec.get("dnsConfig"), spec.get("dnsPolicy", ""), f"{path}.dnsConfig")
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        errors += label_name(gate.get("conditionType", ""), f"{path}.readinessGates[{i}].conditionType")
    if "schedulingGates" in spec:
        errors += validate_gates(spec["schedulingGates"], f"{path}.schedulingGates")
    if "topologySpreadConstraints" in spec:
        errors += validate_spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints")
    if spec.get("hostUsers") is False:
        for field, at in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(field):
                errors.append(forbidden(f"{path}.{at}", "when `hostUsers` is false"))
    return errors


def _validate_dns(config: Json, policy: str, path: str) -> list[FieldError]:
    if policy == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", text)]
    errors: list[FieldError] = []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > 3:
        errors.append(invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for i, server in enumerate(servers):
        errors += _ip_errors(server, f"{path}.nameservers[{i}]")
    if len(searches) > 32:
        errors.append(invalid(f"{path}.searches", searches, "must not have more than 32 search paths"))
    for i, search in enumerate(searches):
        bare = search.removesuffix(".")
        errors += [invalid(f"{path}.searches[{i}]", bare, text) for text in names.dns_subdomain(bare)]
    for i, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{i}]", "must not be empty"))
    return errors


def _ip_errors(text: str, path: str) -> list[FieldError]:
    try:
        ip_address(text)
    except ValueError:
        return [invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def _validate_names(spec: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("serviceAccountName", "nodeName"):
        errors += _subdomain(spec, field, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _INT32_MAX:
        text = f"must be between 1 and {_INT32_MAX}, inclusive"
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, text))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += [invalid(f"{path}.{field}", spec[field], text) for text in names.dns_label(spec[field])]
    if "tolerations" in spec:
        errors += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        errors += _validate_alias(alias, f"{path}.hostAliases[{i}]")
    for field in ("priorityClassName", "runtimeClassName"):
        errors += _subdomain(spec, field, path)
    errors += _validate_preemption_policy(spec.get("preemptionPolicy"), f"{path}.preemptionPolicy")
    if "overhead" in spec:
        errors += validate_resources({"limits": spec["overhead"]}, (), f"{path}.overhead")
    if "os" in spec:
        errors += _validate_operating_system(spec["os"].get("name"), f"{path}.os")
    return errors


def _validate_preemption_policy(policy: str | None, path: str) -> list[FieldError]:
    if policy is None or policy in _PREEMPTION_POLICIES:
        return []
    return [not_supported(path, policy, _PREEMPTION_POLICIES) if policy else required(path)]


def _validate_operating_system(name: str | None, path: str) -> list[FieldError]:
    if name in _OPERATING_SYSTEMS:
        return []
    return [not_supported(path, name, _OPERATING_SYSTEMS) if name else required(f"{path}.name")]


def _subdomain(spec: Json, field: str, path: str) -> list[FieldError]:
    name = spec.get(field)
    return [invalid(f"{path}.{field}", name, text) for text in names.dns_subdomain(name)] if name else []


def _validate_alias(alias: Json, path: str) -> list[FieldError]:
    errors = _ip_errors(alias.get("ip", ""), f"{path}.ip")
    for i, name in enumerate(alias.get("hostnames") or ()):
        errors += [invalid(f"{path}.hostnames[{i}]", name, text) for text in names.dns_subdomain(name)]
    return errors
