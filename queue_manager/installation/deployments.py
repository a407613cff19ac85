"""The processes: Deployments with their configuration and PodDisruptionBudgets, under Pod Security "restricted"."""

from __future__ import annotations

from queue_manager.api.component_names import JOB_CONTROLLER_LEASE, PUBLIC_NAMESPACE
from queue_manager.configuration.config_map import KEY
from queue_manager.installation import certificate_objects, object_names
from queue_manager.installation.certificate_objects import MOUNTED
from queue_manager.installation.rbac_objects import (
    ALL_NAMESPACES,
    CLUSTER_WIDE,
    NO_WEBHOOKS,
    OWN_DEPLOYMENT,
    QUEUE_RUNS,
    ROLES_ONLY,
    SHARED_DEPLOYMENT,
    WEBHOOKS,
)
from queue_manager.installation.template import (
    CONFIG,
    ITEM,
    NAMESPACE,
    Checksum,
    Choice,
    Each,
    Node,
    Setting,
    Spread,
    Template,
    TemplateCondition,
    Text,
    when,
)
from queue_manager.operator.required_permissions import JOB_CONTROLLER, QUEUE

CONFIG_FOLDER = "/etc/sluice"
NOTIFICATIONS_FOLDER = "/etc/sluice-notifications"  # not in the other one: a read-only volume has no place for a mount
OBJECTS_FOLDER = "/etc/sluice-objects"
OBJECTS = "clusterObjects"

POD_SECURITY: Node = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: Node = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
TRACED = TemplateCondition("tracing.endpoint")
NOTIFICATIONS_SECRET = TemplateCondition("notifications.secretName")
IMAGE = Choice(
    TemplateCondition("image.digest"),
    Text(Setting("image.repository"), "@", Setting("image.digest")),
    Text(Setting("image.repository"), ":", Setting("image.tag")),
)


def process_templates() -> list[Template]:
    """Return the configuration, the Deployments and their PodDisruptionBudgets."""
    manager_arguments: list[Node] = [
        Choice(SHARED_DEPLOYMENT, f"--controllers={QUEUE},{JOB_CONTROLLER}", f"--controllers={QUEUE}"),
        when("--no-webhooks", NO_WEBHOOKS),
        when(f"--cluster-objects={OBJECTS_FOLDER}", ROLES_ONLY),
    ]
    job_controller_arguments: list[Node] = [f"--controllers={JOB_CONTROLLER}", f"--lease={JOB_CONTROLLER_LEASE}"]
    return [
        _config_map(),
        when(_published_config(PUBLIC_NAMESPACE), QUEUE_RUNS, ALL_NAMESPACES, CLUSTER_WIDE),
        when(Each("namespaces", _published_config(ITEM)), QUEUE_RUNS),
        when(_objects_map(), QUEUE_RUNS, ROLES_ONLY),
        when(_deployment(object_names.MANAGER, manager_arguments, has_queue=True), QUEUE_RUNS),
        when(_deployment(object_names.JOB_CONTROLLER, job_controller_arguments, has_queue=False), OWN_DEPLOYMENT),
        when(_disruption_budget(object_names.MANAGER), QUEUE_RUNS, TemplateCondition("podDisruptionBudget.enabled")),
        when(
            _disruption_budget(object_names.JOB_CONTROLLER),
            OWN_DEPLOYMENT,
            TemplateCondition("podDisruptionBudget.enabled"),
        ),
    ]


def _config_map() -> Template:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": object_names.CONFIG_MAP, "namespace": NAMESPACE, "labels": object_names.LABELS},
        "data": {KEY: certificate_objects.config_text()},
    }


def _published_config(namespace: Node) -> Template:
    """Return the ConfigMap whose data the queue writes. It is made here so that the queue need not create any."""
    meta: Node = {"name": object_names.PUBLISHED_CONFIG, "namespace": namespace, "labels": object_names.LABELS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def _objects_map() -> Template:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": object_names.OBJECTS_MAP, "namespace": NAMESPACE, "labels": object_names.LABELS},
        "data": {"objects.yaml": Setting(OBJECTS)},
    }


def _deployment(name: str, arguments: list[Node], *, has_queue: bool) -> Template:
    labels = object_names.pod_labels(name)
    return {
        "apiVersion": f"{object_names.APPS}/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": Setting("replicas"),
            # A replica waits as a candidate while the old leader works, so a new one may always come first.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {
                        "kubectl.kubernetes.io/default-container": "manager",
                        "sluice/config-checksum": Checksum(CONFIG),  # a changed configuration restarts the pods
                        **({"sluice/objects-checksum": when(Checksum(OBJECTS), ROLES_ONLY)} if has_queue else {}),
                        "+": Spread("podAnnotations"),
                    },
                },
                "spec": _pod(name, arguments, has_queue=has_queue),
            },
        },
    }


def _pod(name: str, arguments: list[Node], *, has_queue: bool) -> Node:
    return {
        "serviceAccountName": name,
        "automountServiceAccountToken": True,
        "securityContext": POD_SECURITY,
        "imagePullSecrets": Setting("imagePullSecrets"),
        "priorityClassName": when(Setting("priorityClassName"), TemplateCondition("priorityClassName")),
        "nodeSelector": Setting("nodeSelector"),
        "tolerations": Setting("tolerations"),
        "affinity": Setting("affinity"),
        "topologySpreadConstraints": [
            _spread(name, key) for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ],
        "terminationGracePeriodSeconds": 10,  # the manager stops within nine seconds and releases its Lease
        "containers": [_container(name, arguments, has_queue=has_queue)],
        "volumes": [
            {"name": "config", "configMap": {"name": object_names.CONFIG_MAP}},
            *([when(_notifications_volume(), NOTIFICATIONS_SECRET)] if has_queue else ()),
            *([when(_objects_volume(), ROLES_ONLY)] if has_queue else ()),
            *([when(certificate_objects.volume(), MOUNTED, *WEBHOOKS)] if has_queue else ()),
        ],
    }


def _spread(name: str, key: str) -> Node:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": Setting("topologySpread.whenUnsatisfiable"),
        "labelSelector": {"matchLabels": object_names.pod_labels(name)},
    }


def _container(name: str, arguments: list[Node], *, has_queue: bool) -> Node:
    api_ports: list[Node] = [
        _port("webhook-server", object_names.WEBHOOK_PORT),
        _port("visibility", object_names.VISIBILITY_PORT),
    ]
    return {
        "name": "manager",
        "image": IMAGE,
        "imagePullPolicy": Setting("image.pullPolicy"),
        "args": [
            "manager",
            f"--config={CONFIG_FOLDER}/{KEY}",
            *arguments,
            Each("namespaces", Text("--namespace=", ITEM)),
            Text("--log-format=", Setting("logging.format")),
            Text("--log-level=", Setting("logging.level")),
        ],
        "env": [
            {"name": "OTEL_SERVICE_NAME", "value": name},
            when(_variable("OTEL_EXPORTER_OTLP_ENDPOINT", "tracing.endpoint"), TRACED),
            when(_variable("OTEL_TRACES_SAMPLER", "tracing.sampler"), TRACED),
            when(_variable("OTEL_TRACES_SAMPLER_ARG", "tracing.samplerArgument"), TRACED),
            Each("extraEnv", ITEM),
        ],
        "ports": [
            _port("metrics", object_names.METRICS_PORT),
            _port("health", object_names.HEALTH_PORT),
            *(api_ports if has_queue else ()),
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
            "timeoutSeconds": 5,
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5, "timeoutSeconds": 5},
        "resources": Setting("resources"),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            _mount("config", CONFIG_FOLDER),
            *([when(_mount("notifications", NOTIFICATIONS_FOLDER), NOTIFICATIONS_SECRET)] if has_queue else ()),
            *([when(_mount("cluster-objects", OBJECTS_FOLDER), ROLES_ONLY)] if has_queue else ()),
            *([when(certificate_objects.volume_mount(), MOUNTED, *WEBHOOKS)] if has_queue else ()),
        ],
    }


def _notifications_volume() -> Node:
    secret: Node = {"secretName": Setting("notifications.secretName"), "optional": True}
    return {"name": "notifications", "secret": secret}


def _objects_volume() -> Node:
    return {"name": "cluster-objects", "configMap": {"name": object_names.OBJECTS_MAP}}


def _mount(name: str, folder: str) -> Node:
    return {"name": name, "mountPath": folder, "readOnly": True}


def _variable(name: str, setting: str) -> Node:
    return {"name": name, "value": Setting(setting)}


def _port(name: str, number: int) -> Node:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _disruption_budget(name: str) -> Template:
    return {
        "apiVersion": f"{object_names.POLICY}/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": object_names.LABELS},
        "spec": {
            "maxUnavailable": Setting("podDisruptionBudget.maxUnavailable"),
            "unhealthyPodEvictionPolicy": "AlwaysAllow",  # a replica that hangs must not block the drain of a node
            "selector": {"matchLabels": object_names.pod_labels(name)},
        },
    }
