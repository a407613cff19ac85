"""How the pods are reached: Services, the visibility API in the cluster's API, and the NetworkPolicy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from queue_manager.api.component_names import VISIBILITY_GROUP
from queue_manager.installation import object_names
from queue_manager.installation.admission_objects import if_served
from queue_manager.installation.certificate_objects import MANAGED, injected, trusted
from queue_manager.installation.rbac_objects import CLUSTER_WIDE, OWN_DEPLOYMENT, QUEUE_RUNS, VISIBLE, WEBHOOKS
from queue_manager.installation.template import ITEM, NAMESPACE, Each, Node, Setting, Template, TemplateCondition, when

PORTS = {
    "metrics": object_names.METRICS_PORT,
    "webhook-server": object_names.WEBHOOK_PORT,
    "visibility": object_names.VISIBILITY_PORT,
}
# Of two versions kubectl prefers the one with the higher priority.
VERSION_PRIORITIES = {"v1beta2": 100, "v1beta1": 90}


def network_templates() -> list[Template]:
    """Return Services, APIServices, the Secret for the webhooks' certificate and the NetworkPolicies."""
    return [
        when(
            _service(object_names.METRICS_SERVICE, object_names.MANAGER, "metrics", object_names.METRICS_PORT),
            QUEUE_RUNS,
            CLUSTER_WIDE,
        ),
        when(
            _service(
                object_names.JOB_CONTROLLER_METRICS_SERVICE,
                object_names.JOB_CONTROLLER,
                "metrics",
                object_names.METRICS_PORT,
            ),
            OWN_DEPLOYMENT,
        ),
        when(
            _service(object_names.WEBHOOK_SERVICE, object_names.MANAGER, "webhook-server", 443), QUEUE_RUNS, *WEBHOOKS
        ),
        when(_conversion_service(), QUEUE_RUNS, *WEBHOOKS),
        when(_webhook_secret(), QUEUE_RUNS, *WEBHOOKS, MANAGED),
        when(_service(object_names.VISIBILITY_SERVICE, object_names.MANAGER, "visibility", 443), QUEUE_RUNS, *VISIBLE),
        *(when(_api_service(*pair), QUEUE_RUNS, *VISIBLE) for pair in VERSION_PRIORITIES.items()),
        when(
            _policy(object_names.MANAGER, ("webhook-server", "visibility")),
            QUEUE_RUNS,
            TemplateCondition("networkPolicy.enabled"),
        ),
        when(_policy(object_names.JOB_CONTROLLER, ()), OWN_DEPLOYMENT, TemplateCondition("networkPolicy.enabled")),
    ]


def _service(
    name: str, deployment: str, port: str, number: int, more: Mapping[str, Node] = MappingProxyType({})
) -> Template:
    """Return the Service of a Deployment's port. `more`: further fields of its spec."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": object_names.pod_labels(deployment)},
        "spec": {
            "selector": object_names.pod_labels(deployment),
            "ports": [{"name": port, "port": number, "targetPort": port, "protocol": "TCP"}],
            **more,
        },
    }


def _conversion_service() -> Template:
    """Return the Service of the conversion webhook, which managers answer before they are ready."""
    more: dict[str, Node] = {"publishNotReadyAddresses": True}
    return _service(object_names.CONVERSION_SERVICE, object_names.MANAGER, "webhook-server", 443, more)


def _webhook_secret() -> Template:
    """Return the Secret without its data, which the manager writes: so it needs no right to create Secrets."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": object_names.WEBHOOK_SECRET, "namespace": NAMESPACE, "labels": object_names.LABELS},
    }


def _api_service(version: str, priority: int) -> Template:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": injected({"name": f"{version}.{VISIBILITY_GROUP}", "labels": object_names.LABELS}),
        "spec": trusted(
            {
                "group": VISIBILITY_GROUP,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": priority,
                "insecureSkipTLSVerify": if_served(False, True),  # without webhooks nothing writes the caBundle
                "service": {"name": object_names.VISIBILITY_SERVICE, "namespace": NAMESPACE, "port": 443},
            }
        ),
    }


def _policy(deployment: str, api_ports: tuple[str, ...]) -> Template:
    """Return the NetworkPolicy of a Deployment. The API server is not a pod: its ports are open to every address."""
    restricted = TemplateCondition("networkPolicy.restrictEgress")
    metrics: Node = {"from": Setting("networkPolicy.metricsFrom"), "ports": [_port(object_names.METRICS_PORT)]}
    from_api_server: list[Node] = [{"ports": [_port(PORTS[port]) for port in api_ports]}] if api_ports else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": deployment, "namespace": NAMESPACE, "labels": object_names.LABELS},
        "spec": {
            "podSelector": {"matchLabels": object_names.pod_labels(deployment)},
            "policyTypes": ["Ingress", when("Egress", restricted)],
            "ingress": [metrics, when(_from_answer_check(), CLUSTER_WIDE), *from_api_server],
            "egress": when(
                [
                    {"ports": [_port(53, "UDP"), _port(53)]},
                    {"ports": [Each("networkPolicy.apiServerPorts", {"port": ITEM, "protocol": "TCP"})]},
                    Each("networkPolicy.moreEgress", ITEM),
                ],
                restricted,
            ),
        },
    }


def _from_answer_check() -> Node:
    """Return the rule for the pod of `helm test`, which may read metrics whatever `metricsFrom` allows."""
    peer: Node = {"podSelector": {"matchLabels": object_names.ANSWER_CHECK_LABELS}}
    return {"from": [peer], "ports": [_port(object_names.METRICS_PORT)]}


def _port(number: int, protocol: str = "TCP") -> Node:
    return {"port": number, "protocol": protocol}
