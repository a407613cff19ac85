"""Names, labels and ports of the installed objects: those of Kueue's installation, so that references to them hold."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version

from job_controller.json_tree import Json
from queue_manager.api import component_names
from queue_manager.api.api_resources import Resource
from queue_manager.api.webhook_table import PORT

VERSION = version("sluice")
DEFAULT_NAMESPACE = component_names.NAMESPACE

MANAGER = component_names.MANAGER
JOB_CONTROLLER = "sluice-job-controller"
CONFIG_MAP = component_names.CONFIG_MAP
OBJECTS_MAP = component_names.OBJECTS_MAP
PUBLISHED_CONFIG = component_names.PUBLISHED_CONFIG
METRICS_SERVICE = component_names.METRICS_SERVICE
JOB_CONTROLLER_METRICS_SERVICE = "sluice-job-controller-metrics-service"
WEBHOOK_SERVICE = component_names.WEBHOOK_SERVICE
CONVERSION_SERVICE = component_names.CONVERSION_SERVICE
WEBHOOK_SECRET = component_names.WEBHOOK_SECRET
VISIBILITY_SERVICE = component_names.VISIBILITY_SERVICE

METRICS_PORT, HEALTH_PORT, VISIBILITY_PORT, WEBHOOK_PORT = 8443, 8081, 8082, PORT

NAME_LABEL, NAME = component_names.NAME_LABEL, component_names.NAME
LABELS = {NAME_LABEL: NAME}
SELECTOR = f"{NAME_LABEL}={NAME}"  # what `sluice uninstall` and `sluice upgrade --check` look for
ANSWER_CHECK_LABELS = {**LABELS, "app.kubernetes.io/component": "helm-test"}  # of the pod of `helm test`
CONTROL_PLANE = {MANAGER: "controller-manager", JOB_CONTROLLER: "job-controller"}


# Kubernetes 1.34 and 1.32 began to serve these versions, and 1.36 v1.
OLDER_VERSIONS = dict.fromkeys(("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"), ("v1beta1", "v1alpha1"))


def versions_of(resource: Resource) -> list[Resource]:
    """Return the resource in each version in which an installation may have it, the newest first."""
    older = OLDER_VERSIONS.get(resource.kind, ())
    return [resource, *(replace(resource, version=version) for version in older)]


def resource_of(obj: Json) -> Resource:
    """Return the resource of an installed object, in the version in which it is written."""
    return replace(KINDS[obj["kind"]], version=obj["apiVersion"].rpartition("/")[2])


def pod_labels(deployment: str) -> dict[str, str]:
    """Return the labels that select the pods of a Deployment."""
    return {**LABELS, "control-plane": CONTROL_PLANE[deployment]}


RBAC, APPS, POLICY = "rbac.authorization.k8s.io", "apps", "policy"
MONITORING = "monitoring.coreos.com"
CERT_MANAGER = "cert-manager.io"
OF_OPERATORS = (MONITORING, CERT_MANAGER)  # groups that a cluster may lack, or not let an owner of a namespace list

# The kinds of installed objects, of this version and of others that it replaces.
KINDS = {
    resource.kind: resource
    for resource in (
        Resource("", "v1", "namespaces", "Namespace", namespaced=False),
        Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False),
        Resource("", "v1", "serviceaccounts", "ServiceAccount"),
        Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
        Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        Resource(RBAC, "v1", "roles", "Role"),
        Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
        Resource("", "v1", "configmaps", "ConfigMap"),
        Resource("", "v1", "secrets", "Secret"),
        Resource("", "v1", "services", "Service"),
        Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
        Resource(POLICY, "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        Resource(APPS, "v1", "deployments", "Deployment"),
        Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False),
        *(
            Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
            for plural, kind in (
                ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
                ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
                ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
                ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
                ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
                ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
            )
        ),
        Resource(MONITORING, "v1", "servicemonitors", "ServiceMonitor"),
        Resource(MONITORING, "v1", "prometheusrules", "PrometheusRule"),
        Resource(CERT_MANAGER, "v1", "certificates", "Certificate"),
        Resource(CERT_MANAGER, "v1", "issuers", "Issuer"),
    )
}
