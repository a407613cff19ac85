"""The service account of the manager on the API server, with exactly the rights of the permissions table."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from queue_manager.api.api_resources import SECRETS, Resource
from queue_manager.api.component_names import service_account
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.operator.required_permissions import ALL, JOB_CONTROLLER, PUBLICATION, QUEUE, rule, rules
from tests.control_plane.audit import LIMITED
from tests.control_plane.server import ControlPlane
from tests.waiting import until

DAY_SECONDS = 24 * 3600
RBAC = ("rbac.authorization.k8s.io", "v1")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
ROLES = Resource(*RBAC, "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = Resource(*RBAC, "rolebindings", "RoleBinding")
BINDINGS = Resource(*RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
FRONT_PROXY = {  # of the role extension-apiserver-authentication-reader
    "apiGroups": [""],
    "resources": ["configmaps"],
    "resourceNames": ["extension-apiserver-authentication"],
    "verbs": ["get"],
}

# The ConfigMap of an installation, which need only be patched, does not exist here.
PUBLISHING = rule(replace(PUBLICATION, verbs=("get", "create", "patch"), names=()))


@dataclass(frozen=True)
class Account:
    api: RestClient
    namespace: str
    name: str

    async def token(self, seconds: int = 3600) -> tuple[str, str]:
        """A token, and the name of the Secret whose deletion makes it invalid within ten seconds."""
        secret = await self.api.create(SECRETS, self.namespace, {"metadata": {"name": f"key-{uuid4().hex[:8]}"}})
        bound = {"kind": "Secret", "apiVersion": "v1", "name": secret["metadata"]["name"]}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": seconds, "boundObjectRef": bound},
        }
        answer = await self.api.create(ACCOUNTS, self.namespace, request, name=self.name, subresource="token")
        return answer["status"]["token"], secret["metadata"]["name"]

    async def invalidate(self, secret: str) -> None:
        await self.api.delete(SECRETS, self.namespace, secret)


async def account(api: RestClient, namespace: str, allowed: list[dict[str, Any]] | None = None) -> Account:
    """A new service account that the API server authorizes; `allowed` are its rules, by default those of all
    controllers.

    The name of one that has fewer rights than a controller uses says so. The others may read how the API server
    presents itself to the visibility API, as in an installation.
    """
    allowed = rules(ALL) if allowed is None else allowed
    installed = [
        chosen for chosen in (ALL, [QUEUE], [JOB_CONTROLLER]) if all(each in allowed for each in rules(chosen))
    ]
    is_installed = bool(installed)
    if any(QUEUE in chosen for chosen in installed):
        allowed = [PUBLISHING, *allowed]
    name = f"{'sluice-' if is_installed else LIMITED}{uuid4().hex[:8]}"
    await api.create(ACCOUNTS, namespace, {"metadata": {"name": name}})
    await api.create(ROLES, "", {"metadata": {"name": name}, "rules": allowed})
    reference = {"apiGroup": RBAC[0], "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    await api.create(BINDINGS, "", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})
    if is_installed:
        reader = {"apiGroup": RBAC[0], "kind": "Role", "name": "extension-apiserver-authentication-reader"}
        binding = {"metadata": {"name": name}, "roleRef": reader, "subjects": [subject]}
        await api.create(ROLE_BINDINGS, "kube-system", binding)
        await until_authorized(api, service_account(namespace, name), [FRONT_PROXY], "kube-system")
    await until_authorized(api, service_account(namespace, name), allowed)
    return Account(api, namespace, name)


async def until_authorized(api: RestClient, user: str, rules: list[dict[str, Any]], namespace: str = "") -> None:
    """Wait until the API server authorizes what the last of these rules allows: its copies of roles and bindings follow
    the stored ones.
    """
    effective = [rule for rule in rules if rule["verbs"]]
    if not effective:
        return
    spec = {"user": user, **_attributes(effective[-1], namespace)}

    async def is_authorized() -> bool:
        return bool((await api.create(REVIEWS, "", {"spec": spec}))["status"]["allowed"])

    await until(is_authorized, f"{user} is authorized: {effective[-1]}")


def _attributes(rule: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The part of a SubjectAccessReview that asks for the first thing that a rule allows."""
    verb = rule["verbs"][0]
    if "nonResourceURLs" in rule:
        return {"nonResourceAttributes": {"path": rule["nonResourceURLs"][0], "verb": verb}}
    resource, _, subresource = rule["resources"][0].partition("/")
    name = rule.get("resourceNames", [""])[0]
    asked = {"group": rule["apiGroups"][0], "resource": resource, "subresource": subresource, "name": name}
    return {"resourceAttributes": {**asked, "verb": verb, "namespace": namespace}}


def without(verb: str, resource: str, controllers: Iterable[str] = ALL) -> list[dict[str, Any]]:
    """The rules of the controllers without one verb on one resource."""
    return [
        {**rule, "verbs": [v for v in rule["verbs"] if not (v == verb and rule["resources"] == [resource])]}
        for rule in rules(controllers)
        if rule["resources"] != [resource] or rule["verbs"] != [verb]
    ]


async def credentials(plane: ControlPlane, controllers: Iterable[str] = ALL) -> Path:
    """Return a kubeconfig of a service account with the rights of these controllers, made once per server."""
    chosen = tuple(controllers)
    file = plane.folder / f"kubeconfig-{'-'.join(chosen)}"
    if not file.exists():
        transport = HttpTransport.from_kubeconfig(plane.kubeconfig)
        try:
            token, _ = await (await account(RestClient(transport), "default", rules(chosen))).token(DAY_SECONDS)
        finally:
            await transport.close()
        write_kubeconfig(file, plane.url, {"token": token}, plane)
    return file


def write_kubeconfig(path: Path, url: str, user: dict[str, Any], plane: ControlPlane | None = None) -> Path:
    """Write a kubeconfig; with a plane its certificate is trusted."""
    cluster = {"server": url}
    if plane is not None:
        cluster["certificate-authority-data"] = base64.b64encode(plane.ca.read_bytes()).decode()
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(tree))
    scratch.rename(path)
    return path
