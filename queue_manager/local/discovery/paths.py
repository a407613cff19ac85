"""Discovery endpoints: versions, groups, resources and OpenAPI.

Documents are cached until a CustomResourceDefinition is added, changed or removed.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import orjson

from job_controller.json_tree import Json
from queue_manager.local.discovery import openapi, openapi_v2
from queue_manager.local.kinds.crd_versions import version_order
from queue_manager.local.kinds.custom_kinds import CustomSchema
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.kinds.kind_registry import KindRegistry

JSON = "application/json"
VERSION = "v1.36.3+sluice"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")
# Subresource -> (group, version, kind, verbs) of its request or response body.
_SUBRESOURCES = {
    "binding": ("", "", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "finalize": ("", "", "", ("update",)),
    "log": ("", "", "", ("get",)),
}


def discovery(registry: KindRegistry, path: str, accept: str) -> tuple[str, bytes] | None:
    """Return content type and body of a discovery document; None if the path names none."""
    if path == "/openapi/v2":
        return openapi_v2.CONTENT_TYPE, openapi_v2.document()
    catalogue = _catalogues.get(registry)
    if catalogue is None or catalogue.generation != registry.generation:
        catalogue = _catalogues[registry] = Catalogue(registry)
    return catalogue.find(path.rstrip("/"), accept)


class Catalogue:
    """The discovery and OpenAPI documents of one generation of the registry, each created at its first request."""

    def __init__(self, registry: KindRegistry) -> None:
        self.generation = registry.generation
        self._mounted = dict(registry.mounted)
        self._versions: dict[tuple[str, str], list[Kind]] = {}
        for kind in registry.all():
            self._versions.setdefault((kind.resource.group, kind.resource.version), []).append(kind)
        self._made: dict[tuple[str, str], bytes] = {}
        self._openapi: dict[str, bytes] = {}

    def find(self, path: str, accept: str) -> tuple[str, bytes] | None:
        """Return content type and body of a document; None if the path names none."""
        aggregated = _aggregated(accept) if path in ("/api", "/apis") else ""
        key = (path, aggregated)
        if key not in self._made:
            body = self._make(path, aggregated)
            if body is None:
                return None
            self._made[key] = body
        if not aggregated:
            return JSON, self._made[key]
        return f"{JSON};g=apidiscovery.k8s.io;v={aggregated};as=APIGroupDiscoveryList", self._made[key]

    def _make(self, path: str, aggregated: str) -> bytes | None:
        if path.startswith("/openapi/v3"):
            return self._make_openapi(path.removeprefix("/openapi/v3").removeprefix("/"))
        tree: Json = None
        parts = path.split("/")[1:]
        match parts:
            case ["version"]:
                tree = _version()
            case ["api"] | ["apis"] if aggregated:
                tree = self._aggregate(parts[0], aggregated)
            case ["api"]:
                tree = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            case ["apis"]:
                groups = [_group(group, self._of(group)) for group in self._groups()]
                tree = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in self._groups():
                tree = {"kind": "APIGroup", "apiVersion": "v1"} | _group(group, self._of(group))
            case ["api", version] if ("", version) in self._versions:
                tree = self._resources("", version)
            case ["apis", group, version] if version in self._mounted_versions(group):
                tree = _resource_list(f"{group}/{version}", self._mounted[group].resources())
            case ["apis", group, version] if group and (group, version) in self._versions:
                tree = self._resources(group, version)
        return None if tree is None else orjson.dumps(tree)

    def _groups(self) -> list[str]:
        stored = (group for group, _ in self._versions if group)
        return [*dict.fromkeys([*stored, *self._mounted])]

    def _of(self, group: str) -> list[str]:
        """Return the versions of a group, the preferred one first."""
        if group in self._mounted:
            return [*self._mounted_versions(group)]
        return sorted((version for g, version in self._versions if g == group), key=version_order)

    def _mounted_versions(self, group: str) -> Sequence[str]:
        return self._mounted[group].versions if group in self._mounted else ()

    # --- legacy ----------------------------------------------------------------------------------------------

    def _resources(self, group: str, version: str) -> Json:
        listed: list[Json] = []
        for kind in self._versions[group, version]:
            listed.append(_resource(kind))
            listed += [_subresource(kind, name) for name in _subresources(kind)]
        return _resource_list(f"{group}/{version}" if group else version, listed)

    # --- aggregated ------------------------------------------------------------------------------------------

    def _aggregate(self, root: str, version: str) -> Json:
        groups = [""] if root == "api" else self._groups()
        items = []
        for group in groups:
            versions = [
                {
                    "version": name,
                    "resources": self._described(group, name),
                    "freshness": "Current",
                }
                for name in self._of(group)
            ]
            items.append({"metadata": {"name": group} if group else {}, "versions": versions})
        api_version = f"apidiscovery.k8s.io/{version}"
        return {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items}

    def _described(self, group: str, version: str) -> list[Json]:
        if group in self._mounted:
            return self._mounted[group].described()
        return [_described(kind) for kind in self._versions[group, version]]

    # --- OpenAPI ---------------------------------------------------------------------------------------------

    def _make_openapi(self, path: str) -> bytes | None:
        if path:
            return self._document(path)
        return openapi.index({name: self._document(name) or b"" for name in self._paths()})

    def _paths(self) -> dict[str, tuple[str, str]]:
        return {openapi.path_of(*key): key for key in self._versions}

    def _document(self, path: str) -> bytes | None:
        if path not in self._openapi:
            key = self._paths().get(path)
            if key is None:
                return None
            self._openapi[path] = openapi.document(self._versions[key])
        return self._openapi[path]


_catalogues: WeakKeyDictionary[KindRegistry, Catalogue] = WeakKeyDictionary()


def _aggregated(accept: str) -> str:
    """Return the version of aggregated discovery that a client prefers, or "" if it prefers the unaggregated form."""
    for clause in accept.split(","):
        if "g=apidiscovery.k8s.io" in clause and "as=APIGroupDiscoveryList" in clause:
            version = next((part for part in clause.replace(" ", "").split(";") if part.startswith("v=")), "")
            if version in ("v=v2", "v=v2beta1"):
                return version.removeprefix("v=")
        elif clause.strip() in (JSON, "*/*"):
            return ""
    return ""


def _version() -> Json:
    major, minor = VERSION.removeprefix("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _resource_list(group_version: str, resources: list[Json]) -> Json:
    head = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if "/" in group_version else {})
    return head | {"groupVersion": group_version, "resources": resources}


def _group(group: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _verbs(kind: Kind) -> list[str]:
    if isinstance(kind.schema, CustomSchema):
        return list(_CUSTOM_VERBS)
    return [verb for verb in _VERBS if kind.resource.plural != "namespaces" or verb != "deletecollection"]


def _subresources(kind: Kind) -> list[str]:
    extra = ["finalize"] if kind.resource.plural == "namespaces" and not kind.resource.group else []
    return sorted([*kind.subresources, *extra, *(["status"] if kind.has_status else [])])


def _resource(kind: Kind) -> Json:
    resource = kind.resource
    entry: Json = {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(kind),
    }
    return entry | _names(kind)


def _names(kind: Kind) -> Json:
    entry: Json = {}
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    return entry


def _subresource(kind: Kind, name: str) -> Json:
    group, version, takes, verbs = _SUBRESOURCES.get(name, ("", "", "", _STATUS_VERBS))
    entry: Json = {
        "name": f"{kind.resource.plural}/{name}",
        "singularName": "",
        "namespaced": kind.resource.namespaced,
        "kind": takes or kind.resource.kind,
        "verbs": list(verbs),
    }
    return {"group": group, "version": version, **entry} if group else entry


def _described(kind: Kind) -> Json:
    """Return an entry of aggregated discovery. Built-in kinds omit group and version in responseKind."""
    resource = kind.resource
    own = isinstance(kind.schema, CustomSchema)
    response = {
        "group": resource.group if own else "",
        "version": resource.version if own else "",
        "kind": resource.kind,
    }
    entry: Json = {
        "resource": resource.plural,
        "responseKind": response,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    } | _names(kind)
    below = []
    for name in _subresources(kind):
        group, version, takes, verbs = _SUBRESOURCES.get(name, ("", "", "", _STATUS_VERBS))
        answer = {"group": group, "version": version, "kind": takes} if takes else response
        below.append({"subresource": name, "responseKind": answer, "verbs": list(verbs)})
    if below:
        entry["subresources"] = below
    return entry
