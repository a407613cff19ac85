"""Which installed objects belong to the installation in one namespace, if another one may stand elsewhere.

Both have the same label, and objects without a namespace have the same names in each: the last one that was applied has
written them. So an object belongs to the namespaces that it refers to: the subjects of a binding, the Service of a
webhook, the account of a manager in a policy. One that refers to none, such as a ClusterRole, is shared by all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from job_controller.json_tree import Json
from queue_manager.api.api_resources import CONFIG_MAPS, CRDS
from queue_manager.api.component_names import PUBLISHED_CONFIG, PUBLISHED_LEASE
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.installed_objects import Live, roles_only_homes, without_roles_only
from queue_manager.cli.manager_place import own_services
from queue_manager.installation import object_names

MANAGER_ACCOUNT = re.compile(f"system:serviceaccount:([a-z0-9-]+):(?:{'|'.join(object_names.CONTROL_PLANE)})")
NOTHING_THERE = "nothing is installed in namespace {}; Sluice is installed in {}"
SEVERAL = "Sluice is installed in {}: name the installation to remove with --namespace"


@dataclass(frozen=True, slots=True)
class InstallationPart:
    """The objects of one installation. `namespace`: of its managers.

    `kept`: objects without a namespace that stay, because `others`, namespaces of other installations, use them, or
    because they refer to another namespace. `crd_users`: namespaces of other installations, also those with Roles only.
    """

    namespace: str
    objects: list[Live]
    kept: Sequence[Live] = ()
    others: Sequence[str] = ()
    crd_users: Sequence[str] = ()


def installation_part(found: list[Live], chosen: str) -> InstallationPart:
    """Return the installation in the namespace `chosen`; "": the only one, or what is left of one.

    `found`: all objects with the label. Raises CommandRefused if nothing is installed there, or if there are several.
    """
    limited = roles_only_homes(found)
    whole = without_roles_only(found)
    places = homes(whole)
    if not chosen:
        if len(places) > 1:
            raise CommandRefused(SEVERAL.format(" and ".join(places)), EXIT_NEVER)
        [namespace] = places or [object_names.DEFAULT_NAMESPACE]
        return InstallationPart(namespace, whole, crd_users=limited)
    if chosen not in _occupied(whole) and (places or (limited and not whole)):
        installed_in = " and ".join(sorted({*places, *limited}))
        raise CommandRefused(NOTHING_THERE.format(chosen, installed_in), EXIT_NEVER)
    others = [place for place in places if place != chosen]
    references = _References(whole)
    objects: list[Live] = []
    kept: list[Live] = []
    for live in whole:
        owners = references.namespaces_of(live)
        if live[0] == CRDS or (owners <= {chosen} and (owners or not others)):
            objects.append(live)
        elif not live[0].namespaced and live[0].kind != "Namespace":
            kept.append(live)
    return InstallationPart(chosen, objects, kept, others, sorted({*others, *limited}))


def without_others(found: list[Live], namespace: str) -> list[Live]:
    """Return the objects that belong to no installation in another namespace."""
    others = {place for place in homes(found) if place != namespace}
    references = _References(found)
    return [live for live in found if live[0] == CRDS or not references.namespaces_of(live) & others]


def homes(found: Sequence[Live]) -> list[str]:
    """The namespaces with managers' Deployments; without any, those with other objects of an interrupted removal."""
    running = {
        obj["metadata"]["namespace"]
        for kind, obj in found
        if kind.kind == "Deployment" and obj["metadata"]["name"] in object_names.CONTROL_PLANE
    }
    return sorted(running or _occupied(found))


def _occupied(found: Sequence[Live]) -> set[str]:
    """The namespaces with objects that an installation has in the namespace of its managers alone."""
    return {
        obj["metadata"]["namespace"]
        for kind, obj in found
        if kind.namespaced and kind.group != object_names.RBAC and not _is_published((kind, obj))
    }


def _is_published(live: Live) -> bool:
    return live[0] == CONFIG_MAPS and live[1]["metadata"]["name"] == PUBLISHED_CONFIG


class _References:
    """To which namespaces of managers each object refers."""

    def __init__(self, found: list[Live]) -> None:
        self._homes = _occupied(found)
        self._roles: dict[tuple[str, str], set[str]] = {}  # by namespace and name
        self._policies: dict[tuple[str, str], set[str]] = {}  # by kind and name
        for kind, obj in found:
            if kind.kind == "RoleBinding":
                role = (obj["metadata"]["namespace"], obj["roleRef"]["name"])
                self._roles.setdefault(role, set()).update(_subjects(obj))
            elif kind.kind.endswith("AdmissionPolicy"):
                accounts = MANAGER_ACCOUNT.findall(json.dumps(obj["spec"]))
                self._policies[kind.kind, obj["metadata"]["name"]] = set(accounts)

    def namespaces_of(self, live: Live) -> set[str]:
        """The namespaces of managers for which an object exists; none if each installation has the same one."""
        namespace = live[1]["metadata"].get("namespace", "")
        return set(self._referred(live)) or ({namespace} & self._homes)

    def _referred(self, live: Live) -> Iterator[str]:
        kind, obj = live
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        if kind.kind == "Namespace":
            yield name
        elif kind.kind in ("RoleBinding", "ClusterRoleBinding"):
            yield from _subjects(obj)
        elif kind.kind == "Role":
            yield from self._roles.get((namespace, name), ())
        elif kind.kind.endswith("WebhookConfiguration"):
            yield from (service.namespace for service in own_services(obj))
        elif kind.kind == "APIService":
            yield from (service["namespace"] for service in [obj["spec"].get("service")] if service)
        elif kind.kind.endswith("AdmissionPolicy"):
            yield from self._policies[kind.kind, name]
        elif kind.kind.endswith("AdmissionPolicyBinding"):
            policy = (kind.kind.removesuffix("Binding"), obj["spec"]["policyName"])
            yield from self._policies.get(policy, ())
        elif _is_published(live):
            place = (obj.get("data") or {}).get(PUBLISHED_LEASE, "").partition("/")[0]
            yield from [place] if place else []


def _subjects(binding: Json) -> set[str]:
    return {subject["namespace"] for subject in binding.get("subjects") or () if subject.get("namespace")}
