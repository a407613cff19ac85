"""Permissions of the webhook server beyond those of the controllers: for its certificate, and to write caBundles."""

from __future__ import annotations

from queue_manager.api.api_resources import (
    API_SERVICES,
    CRDS,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    WORKLOADS,
)
from queue_manager.api.conversion import FACETS
from queue_manager.api.models import KINDS
from queue_manager.api.webhook_table import MUTATING, VALIDATING
from queue_manager.operator.required_permissions import Need
from queue_manager.visibility.pending_summary import GROUP, VERSIONS

# The other definitions have no conversion webhook: their kinds are the same in both versions.
CRD_NAMES = tuple(f"{kind.plural}.{WORKLOADS.group}" for kind in KINDS if FACETS[kind.__name__])
API_SERVICE_NAMES = tuple(f"{version}.{GROUP}" for version in VERSIONS)

# The caBundles of the objects that lead to the webhook server.
CA_INJECTION = (
    Need(MUTATING_WEBHOOKS, ("get", "patch"), names=(MUTATING,)),
    Need(VALIDATING_WEBHOOKS, ("get", "patch"), names=(VALIDATING,)),
    Need(CRDS, ("get", "patch"), names=CRD_NAMES),
    Need(API_SERVICES, ("get", "patch"), names=API_SERVICE_NAMES),
)


def certificate_secret(name: str) -> Need:
    """The permission to read and write the Secret `name`, granted by a Role in the manager's namespace.

    It lacks `create`, which RBAC cannot restrict to a name: an installation creates the Secret.
    """
    return Need(SECRETS, ("get", "update"), names=(name,))
