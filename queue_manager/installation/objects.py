"""Every object of an installation, in the order in which it is applied."""

from __future__ import annotations

from collections.abc import Sequence

from job_controller.json_tree import Json
from queue_manager.api.crd_conversion import converted_by, service
from queue_manager.api.crd_generation import crd
from queue_manager.api.models import KINDS
from queue_manager.installation import object_names
from queue_manager.installation.admission_objects import (
    PLACEHOLDER,
    SERVED,
    admission_templates,
    filled,
    if_served,
)
from queue_manager.installation.certificate_objects import certificate_templates, injected, trusted
from queue_manager.installation.deployments import process_templates
from queue_manager.installation.monitoring import monitoring_templates
from queue_manager.installation.network_objects import network_templates
from queue_manager.installation.rbac_objects import CLUSTER_WIDE, account_templates, role_templates
from queue_manager.installation.settings import Settings, config_of, values_of
from queue_manager.installation.template import NAMESPACE, Node, Template, TemplateCondition, resolve, when
from queue_manager.installation.user_roles import user_role_templates

POD_SECURITY_LABELS = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
NAMESPACE_LABELS = {**object_names.LABELS, **POD_SECURITY_LABELS}
# `helm uninstall` would delete the CRDs, and with them every object of their kinds.
KEEP = {"helm.sh/resource-policy": "keep"}


def objects(settings: Settings, namespace: str = object_names.DEFAULT_NAMESPACE) -> list[Json]:
    """Return the objects of an installation in a namespace."""
    values = {**values_of(settings), "config": config_of(settings), "namespace": namespace}
    return resolve([namespace_template(), *templates()], values)


def namespace_template() -> Template:
    """Return the namespace, which a Helm chart leaves to `helm install --create-namespace`."""
    namespace: Node = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": NAMESPACE_LABELS},
    }
    return when(namespace, CLUSTER_WIDE)


def templates() -> list[Template]:
    """Return the templates of everything but the namespace. What others need comes first."""
    return [template for _, group in template_groups() for template in group]


def template_groups() -> list[tuple[str, Sequence[Template]]]:
    """Return the templates by the file of the chart that has them."""
    return [
        ("crds", crd_templates()),
        ("service-accounts", account_templates()),
        ("roles", role_templates()),
        ("user-roles", user_role_templates()),
        ("network", network_templates()),
        ("certificates", certificate_templates()),
        ("admission", admission_templates()),
        ("processes", process_templates()),
        ("monitoring", monitoring_templates()),
    ]


def crd_templates() -> list[Template]:
    """Return the CRDs with all their versions, as in config/crds."""
    return [when(_crd(crd(kind)), TemplateCondition("crds.install"), CLUSTER_WIDE) for kind in KINDS]


def _crd(definition: Json) -> Template:
    metadata = {**definition["metadata"], "labels": object_names.LABELS, "annotations": KEEP}
    with_webhook = converted_by(definition, service(PLACEHOLDER, object_names.CONVERSION_SERVICE))
    if with_webhook == definition:
        return {**definition, "metadata": metadata}
    spec = _spec(definition["spec"], with_webhook["spec"])
    return {**definition, "metadata": injected(metadata), "spec": spec}


def _spec(plain: Json, converted: Json) -> Node:
    """The spec without or with the conversion webhook, which serves one version more."""
    versions = [
        {**version, "served": True if version["served"] else if_served(other["served"], version["served"])}
        for version, other in zip(plain["versions"], converted["versions"], strict=True)
    ]
    webhook = converted["conversion"]["webhook"]
    client = trusted({"service": filled(webhook["clientConfig"]["service"])})
    conversion: Node = {**converted["conversion"], "webhook": {**webhook, "clientConfig": client}}
    return {**plain, "conversion": when(conversion, *SERVED), "versions": versions}
