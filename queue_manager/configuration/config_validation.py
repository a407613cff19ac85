"""Values that have the right type but cannot be used, alone or together (Kueue's pkg/config, `validate`)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

from job_controller.api_rules import label_selectors, names
from queue_manager.configuration import addresses, feature_gates
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.notifications_section import EVENT_TYPES
from queue_manager.configuration.quoted_text import quoted
from queue_manager.configuration.value_errors import one_of
from queue_manager.configuration.webhook_and_tls_sections import CIPHER_SUITES, Tls
from queue_manager.configuration.yaml_places import Findings

FRAMEWORKS = (
    "batch/job",
    "deployment",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "pod",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "sparkoperator.k8s.io/sparkapplication",
    "statefulset",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
)
LABELS_LIMIT, LABELS_PER_KIND, LABELS_OF_WORKLOADS = 20, 6, 2
_is_metric_label = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*").fullmatch
_is_kind_version_group = re.compile(r"[^.]+\.[^.]+\.[^.].*").fullmatch


def validate(config: KueueConfig, findings: Findings, namespaces: Collection[str] = ()) -> None:
    """Add every value that cannot be used to `findings`. `namespaces`: the only ones that the process manages."""
    _feature_gates(config, findings)
    _namespaces(config, findings, namespaces)
    _integrations(config, findings)
    _resources(config, findings)
    _custom_labels(config, findings)
    _leader_election(config, findings)
    _job_controller(config, findings)
    _notifications(config, findings)
    _servers(config, findings)
    _multikueue(config, findings)


def _feature_gates(config: KueueConfig, findings: Findings) -> None:
    for gate, value in config.feature_gates.items():
        if refusal := feature_gates.refusal(gate, value, config.feature_gates):
            findings.reject(
                f"featureGates[{gate}]",
                f"{refusal}; remove it, in Sluice only {feature_gates.DISABLE_WAIT_FOR_PODS_READY} switches anything",
            )


def _namespaces(config: KueueConfig, findings: Findings, listed: Collection[str]) -> None:
    path = "managedJobsNamespaceSelector"
    selector = config.managed_jobs_namespace_selector
    errors = label_selectors.validate_selector(selector.tree(), path)
    for error in errors:
        findings.reject(error.field, error.message, by=error.field.rpartition(".")[0])
    if errors:
        return
    for namespace in dict.fromkeys(("kube-system", config.namespace)):
        if namespace not in listed and selector.matches({"kubernetes.io/metadata.name": namespace}):
            what = f'matches the "{namespace}" namespace; must exclude it, as operator NotIn does'
            findings.reject(path, what)


def _integrations(config: KueueConfig, findings: Findings) -> None:
    seen: set[str] = set()
    for i, framework in enumerate(config.integrations.frameworks):
        where = f"integrations.frameworks[{i}]"
        if framework not in FRAMEWORKS:
            findings.reject(where, f"{quoted(framework)} is not supported; must be {one_of(FRAMEWORKS)}")
        elif framework in seen:
            findings.reject(where, f"{quoted(framework)} is given twice; give it once")
        seen.add(framework)
    for i, framework in enumerate(config.integrations.external_frameworks):
        where = f"integrations.externalFrameworks[{i}]"
        if not _is_kind_version_group(framework):
            findings.reject(where, f"{quoted(framework)} is not a kind; must be of the form Kind.version.group.com")
        elif framework in seen:
            findings.reject(where, f"{quoted(framework)} is given twice; give it once")
        seen.add(framework)


def _resources(config: KueueConfig, findings: Findings) -> None:
    resources = config.resources
    if resources.quota_check_strategy == "IgnoreUndeclared" and resources.exclude_resource_prefixes:
        what = "IgnoreUndeclared cannot be combined with excludeResourcePrefixes; remove one of them"
        findings.reject("resources.quotaCheckStrategy", what)
    inputs: set[str] = set()
    for i, transformation in enumerate(resources.transformations):
        where = f"resources.transformations[{i}].input"
        if not transformation.input:
            findings.reject(where, "is missing; must be the name of a resource")
        elif transformation.input in inputs:
            findings.reject(where, f"{quoted(transformation.input)} is given twice; put all outputs in one entry")
        inputs.add(transformation.input)
    _device_classes(config, findings)


def _device_classes(config: KueueConfig, findings: Findings) -> None:
    mappings = config.resources.device_class_mappings
    path = "resources.deviceClassMappings"
    if len(mappings) > 16:
        findings.reject(path, f"{len(mappings)} entries; must have at most 16")
    seen: set[str] = set()
    for i, mapping in enumerate(mappings):
        if len(mapping.device_class_names) > 8:
            findings.reject(f"{path}[{i}].deviceClassNames", "too many entries; must have at most 8")
        if mapping.name in seen:
            findings.reject(f"{path}[{i}].name", f"{quoted(mapping.name)} is given twice; give it once")
        seen.add(mapping.name)


def _custom_labels(config: KueueConfig, findings: Findings) -> None:
    labels = config.metrics.custom_labels
    path = "metrics.customLabels"
    if len(labels) > LABELS_LIMIT:
        findings.reject(path, f"{len(labels)} entries; must have at most {LABELS_LIMIT}")
    seen: set[str] = set()
    kinds: dict[str, int] = {}
    for i, label in enumerate(labels):
        where = f"{path}[{i}]"
        if not _is_metric_label(label.name):
            findings.reject(
                f"{where}.name", f"{quoted(label.name)} is not a label name; must match ^[a-zA-Z][a-zA-Z0-9_]*$"
            )
        elif label.name in seen:
            findings.reject(f"{where}.name", f"{quoted(label.name)} is given twice; give it once")
        seen.add(label.name)
        if label.source_label_key and label.source_annotation_key:
            findings.reject(where, "has sourceLabelKey and sourceAnnotationKey; must have one of them at most")
        kinds[label.source_kind] = kinds.get(label.source_kind, 0) + 1
        workload = label.source_kind == "Workload"
        if kinds[label.source_kind] == 1 + (LABELS_OF_WORKLOADS if workload else LABELS_PER_KIND):
            limit = LABELS_OF_WORKLOADS if workload else LABELS_PER_KIND
            findings.reject(where, f"one label too many of {label.source_kind}; must have at most {limit}")
        if len(label.tracked_values) > (12 if workload else 16) or (workload and not label.tracked_values):
            allowed = "1-12 values" if workload else "at most 16 values"
            findings.reject(f"{where}.trackedValues", f"{len(label.tracked_values)} values; must have {allowed}")


def _leader_election(config: KueueConfig, findings: Findings) -> None:
    """Check the times of the election: a leader that renews too late would keep working beside its successor."""
    path, election = "leaderElection", config.leader_election
    if not election.leader_elect:
        return
    if election.resource_lock not in ("", "leases"):
        findings.reject(
            f"{path}.resourceLock", f'{quoted(election.resource_lock)} is not a kind of lock; must be "leases"'
        )
    for text in names.dns_subdomain(election.resource_name):
        findings.reject(f"{path}.resourceName", f"is not a Lease name; {text}")
    for text in names.dns_label(election.resource_namespace) if election.resource_namespace else ():
        findings.reject(f"{path}.resourceNamespace", f"is not a namespace name; {text}")
    if election.renew_deadline >= election.lease_duration:
        findings.reject(
            f"{path}.renewDeadline", "is too long; must be less than leaseDuration", by=f"{path}.leaseDuration"
        )
    if election.retry_period >= election.renew_deadline:
        findings.reject(
            f"{path}.retryPeriod", "is too long; must be less than renewDeadline", by=f"{path}.renewDeadline"
        )


def _job_controller(config: KueueConfig, findings: Findings) -> None:
    jobs = config.job_controller
    if jobs.pod_failure_backoff_max < jobs.pod_failure_backoff_base:
        what = "is less than podFailureBackoffBase; must be greater than or equal to it"
        findings.reject("jobController.podFailureBackoffMax", what, by="jobController.podFailureBackoffBase")


def _notifications(config: KueueConfig, findings: Findings) -> None:
    """Check that the webhook has one URL without a user part (it would be logged), and one secret."""
    settings = config.notifications
    if settings is None:
        return
    for i, event in enumerate(settings.events):
        if event not in EVENT_TYPES:
            findings.reject(
                f"notifications.events[{i}]", f"{quoted(event)} is not an event; must be {one_of(EVENT_TYPES)}"
            )
    if settings.command and not settings.command[0]:
        findings.reject("notifications.command[0]", "is empty; must be a program")
    webhook, path = settings.webhook, "notifications.webhook"
    if webhook is None:
        return
    if bool(webhook.url) == bool(webhook.url_file):
        findings.reject(f"{path}.url", "exactly one of url and urlFile is required")
    if bool(webhook.secret_file) == bool(webhook.secret_env):
        findings.reject(f"{path}.secretFile", "exactly one of secretFile and secretEnv is required")
    url = urlsplit(webhook.url)
    if webhook.url and (url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc):
        findings.reject(f"{path}.url", "must be a URL with http or https, with a host and without a user")


def _servers(config: KueueConfig, findings: Findings) -> None:
    for field, text in (
        ("health.healthProbeBindAddress", config.health.health_probe_bind_address),
        ("metrics.bindAddress", config.metrics.bind_address),
    ):
        if text not in addresses.OFF:
            try:
                addresses.parse(text)
            except ValueError as error:
                findings.reject(field, str(error))
    certificates = config.internal_cert_management
    if certificates.enable:
        for text in names.dns_1035_label(certificates.webhook_service_name):
            findings.reject("internalCertManagement.webhookServiceName", f"is not a Service name; {text}")
        for text in names.dns_subdomain(certificates.webhook_secret_name):
            findings.reject("internalCertManagement.webhookSecretName", f"is not a Secret name; {text}")
    visibility = config.visibility_server
    if visibility is not None and visibility.bind_address:
        try:
            ipaddress.ip_address(visibility.bind_address)
        except ValueError:
            what = f"{quoted(visibility.bind_address)} is not an address; must be a valid IP address"
            findings.reject("visibilityServer.bindAddress", what)
    if config.webhook.host:
        try:
            ipaddress.ip_address(config.webhook.host)
        except ValueError:
            findings.reject(
                "webhook.host", f"{quoted(config.webhook.host)} is not an address; must be a valid IP address"
            )
    if config.tls is not None:
        _tls(config.tls, findings)


def _tls(tls: Tls, findings: Findings) -> None:
    if tls.min_version not in ("", "VersionTLS12", "VersionTLS13"):
        findings.reject(
            "tls", f'{quoted(tls.min_version)} is not a minVersion; must be "VersionTLS12" or "VersionTLS13"'
        )
    if tls.min_version == "VersionTLS13" and tls.cipher_suites:
        findings.reject("tls.cipherSuites", "cannot be chosen with VersionTLS13; must be omitted then")
    for i, name in enumerate(tls.cipher_suites):
        if name not in CIPHER_SUITES:
            what = f"{quoted(name)} is not a secure cipher suite; must be {one_of(tuple(CIPHER_SUITES))}"
            findings.reject(f"tls.cipherSuites[{i}]", what)


def _multikueue(config: KueueConfig, findings: Findings) -> None:
    for text in names.label_value(config.multi_kueue.origin):
        findings.reject("multiKueue.origin", f"is not a label value; {text}")
    for i, framework in enumerate(config.multi_kueue.external_frameworks):
        if not _is_kind_version_group(framework.name):
            what = f"{quoted(framework.name)} is not a kind; must be of the form kind.version.group"
            findings.reject(f"multiKueue.externalFrameworks[{i}].name", what)
