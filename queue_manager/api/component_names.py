"""Names of the objects around a manager: those of Kueue's installation, so that references to them hold.

NetworkPolicies, ServiceMonitors, role bindings and the webhook configurations of a cluster that Kueue ran on use them.
"""

from __future__ import annotations

NAMESPACE = "kueue-system"
MANAGER = "kueue-controller-manager"  # Deployment, ServiceAccount, PodDisruptionBudget, NetworkPolicy
CONFIG_MAP = "kueue-manager-config"  # the file of the managers
PUBLISHED_CONFIG = "sluice-published-config"  # ConfigMap of what a manager works by, without secrets, for all users
PUBLISHED_LEASE = "lease"  # its key with the Lease of the manager, NAMESPACE/NAME; "" without leader election
PUBLISHED_HOLDER = "holder"  # its key with who holds that Lease, as long as the manager runs; "" likewise
PUBLIC_NAMESPACE = "kube-public"  # every cluster has it, for what all users may read
OBJECTS_MAP = "sluice-cluster-objects"  # ConfigMap of the kinds without a namespace, with Roles only
LEASE = "c1f6bfd2.kueue.x-k8s.io"  # by default, in the manager's namespace
JOB_CONTROLLER_LEASE = "job-controller.sluice"  # of its own Deployment: a Lease has one leader
METRICS_SERVICE = "kueue-controller-manager-metrics-service"
WEBHOOK_SERVICE = "kueue-webhook-service"
CONVERSION_SERVICE = "sluice-conversion-service"  # Kueue has none of its own
WEBHOOK_SECRET = "kueue-webhook-server-cert"  # the name, not the certificate
VISIBILITY_SERVICE = "kueue-visibility-server"
VISIBILITY_GROUP = "visibility.kueue.x-k8s.io"
NAME_LABEL, NAME = "app.kubernetes.io/name", "sluice"  # of each installed object


def service_account(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"
