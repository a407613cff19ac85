"""Representations other than objects: tables, partial metadata, discovery, OpenAPI."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS
from tests.contract.bodies import config_map, definition, job, pod, thing, things
from tests.contract.session import Session

Json = Any
META = "g=meta.k8s.io;v=v1"
TABLE = f"application/json;as=Table;{META}"
PARTIAL = f"application/json;as=PartialObjectMetadata;{META}"
PARTIALS = f"application/json;as=PartialObjectMetadataList;{META}"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GROUPS = ("", "batch", "events.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "apiextensions.k8s.io")
SERVED = {
    "v1": ("configmaps", "events", "limitranges", "namespaces", "nodes", "pods", "secrets", "serviceaccounts"),
    "batch/v1": ("jobs",),
    "events.k8s.io/v1": ("events",),
    "scheduling.k8s.io/v1": ("priorityclasses",),
    "coordination.k8s.io/v1": ("leases",),
    "apiextensions.k8s.io/v1": ("customresourcedefinitions",),
}


async def test_tables_of_jobs(s: Session) -> None:
    await s.create(job("j", {"completions": 3, "parallelism": 2}), silent=True)
    await s.create(job("k", {"suspend": True}), silent=True)
    await s.list(JOBS, accept=TABLE)
    await s.get(JOBS, "j", accept=TABLE)


async def test_tables_of_pods(s: Session) -> None:
    await s.create(pod("p"), silent=True)
    await s.create(pod("q", {"nodeName": "n", "schedulerName": "x"}), silent=True)
    status = {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    status["containerStatuses"] = [{"name": "main", "ready": True, "restartCount": 2, "state": {"running": {}}}]  # type: ignore[assignment]
    await s.patch(PODS, "q", {"status": status}, subresource="status", silent=True)
    await s.list(PODS, accept=TABLE)


async def test_tables_of_other_kinds(s: Session) -> None:
    await s.create(config_map("a", {"x": "1", "y": "2"}), silent=True)
    await s.list(CONFIG_MAPS, accept=TABLE)
    await s.ask("GET", NAMESPACES.path(name=s.namespace), accept=TABLE)
    await s.ask("GET", s.path(CONFIG_MAPS).replace("configmaps", "secrets"), accept=TABLE)
    await s.ask("GET", s.path(CONFIG_MAPS).replace("configmaps", "events"), accept=TABLE)


@pytest.mark.parametrize("include", ["None", "Metadata", "Object", "Everything"])
async def test_include_object_selects_what_a_table_row_carries(s: Session, include: str) -> None:
    await s.create(config_map(), silent=True)
    await s.list(CONFIG_MAPS, accept=TABLE, includeObject=include)


async def test_a_table_is_paged(s: Session) -> None:
    for name in "abc":
        await s.create(config_map(name), silent=True)
    page = await s.list(CONFIG_MAPS, accept=TABLE, limit=2)
    await s.list(CONFIG_MAPS, accept=TABLE, limit=2, query={"continue": page.meta["continue"]})


async def test_a_missing_object_is_answered_by_a_status_and_not_by_a_table(s: Session) -> None:
    await s.get(CONFIG_MAPS, "none", accept=TABLE)
    await s.get(CONFIG_MAPS, "none", accept=f"{TABLE},application/json")


async def test_partial_object_metadata(s: Session) -> None:
    await s.create(job(), silent=True)
    await s.get(JOBS, "j", accept=PARTIAL)
    await s.list(JOBS, accept=PARTIALS)
    await s.list(JOBS, accept=PARTIAL, differs="partial-lenient")
    await s.patch(JOBS, "j", {"metadata": {"labels": {"a": "b"}}}, accept=PARTIAL)


async def test_a_write_is_answered_by_a_table_on_request(s: Session) -> None:
    await s.create(config_map(), accept=TABLE)
    await s.delete(CONFIG_MAPS, "a", accept=TABLE)


@pytest.mark.parametrize("root", ["/api/v1", "/apis/batch/v1", "/apis/events.k8s.io/v1", "/apis/scheduling.k8s.io/v1"])
async def test_resources_of_a_group(s: Session, root: str) -> None:
    """Discovery is equal for the kinds that both servers serve."""
    answer = await s.ask("GET", root, silent=True)
    served = SERVED[answer.body["groupVersion"]]
    kept = ("", "/status", "/log", "/binding", "/eviction", "/finalize")
    entries = [
        {name: value for name, value in entry.items() if name != "storageVersionHash"}
        for entry in answer.body["resources"]
        if any(entry["name"] == plural + suffix for plural in served for suffix in kept)
    ]
    body = answer.body | {"resources": sorted(entries, key=lambda entry: entry["name"])}
    s.check_step({"body": body})


async def test_groups(s: Session) -> None:
    """Groups are listed with their preferred version, and found one by one."""
    listed = (await s.ask("GET", "/apis", silent=True)).body
    groups = [group for group in listed["groups"] if group["name"] in GROUPS]
    for group in groups:
        group["versions"] = [v for v in group["versions"] if v["version"] == "v1"]
    s.check_step({"body": listed | {"groups": sorted(groups, key=lambda group: group["name"])}})
    one = (await s.ask("GET", "/apis/batch", silent=True)).body
    s.check_step({"body": one})


async def test_aggregated_discovery(s: Session) -> None:
    """One document describes all groups."""
    for root in ("/api", "/apis"):
        answer = await s.ask("GET", root, accept=AGGREGATED, silent=True)
        items = []
        for item in answer.body["items"]:
            group = item["metadata"].get("name", "")
            for version in item["versions"]:
                name = f"{group}/{version['version']}".lstrip("/")
                entries = [e for e in version["resources"] if e["resource"] in SERVED.get(name, ())]
                for entry in entries:
                    entry["subresources"] = sorted(
                        (
                            sub
                            for sub in entry.get("subresources", ())
                            if sub["subresource"] in ("status", "log", "binding", "eviction", "finalize")
                        ),
                        key=lambda sub: sub["subresource"],
                    )
                if entries:
                    items.append({"group": name, "resources": sorted(entries, key=lambda e: e["resource"])})
        body = answer.body | {"items": sorted(items, key=lambda item: item["group"])}
        body["metadata"] = {}
        assert answer.headers["Content-Type"].startswith("application/json;g=apidiscovery.k8s.io;v=v2")
        s.check_step({"body": body})


async def test_openapi_describes_what_is_served(s: Session) -> None:
    """The index refers to a document per group, with the schemas that kubectl reads."""
    index = (await s.ask("GET", "/openapi/v3", silent=True)).body["paths"]
    for name in ("api/v1", "apis/batch/v1"):
        path, _, query = index[name]["serverRelativeURL"].partition("?")
        answer = await s.ask("GET", path, query=dict([query.split("=", 1)]), silent=True)
        assert answer.status == 200
        schemas = answer.body["components"]["schemas"]
        spec = schemas["io.k8s.api.core.v1.PodSpec" if name == "api/v1" else "io.k8s.api.batch.v1.JobSpec"]
        s.check_step({"fields": sorted(spec["properties"]), "required": spec["required"]})


async def test_a_printer_column_shows_the_first_of_several_values(s: Session) -> None:
    texts = {"type": "array", "items": {"type": "string"}}
    pairs = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    paths = (".spec.l[*]", ".spec.l", ".spec.o[*].n", ".spec.o[*]", ".spec.none[*]")
    columns = [{"name": f"C{i}", "type": "string", "jsonPath": path} for i, path in enumerate(paths)]
    columns.append({"name": "N", "type": "integer", "jsonPath": ".spec.o[*].n"})
    schema = {"type": "object", "properties": {"l": texts, "o": pairs}}
    await s.define(definition(s.group, schema, additionalPrinterColumns=columns))
    await s.create(thing(s.group, "t", l=["b", "a"], o=[{"n": 2}, {"n": 1}]), silent=True)
    await s.list(things(s.group), accept=TABLE)


async def test_custom_kinds_are_discovered(s: Session) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    columns = [
        {"name": "A", "type": "string", "jsonPath": ".spec.a"},
        {"name": "W", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
    ]
    await s.define(definition(s.group, schema, additionalPrinterColumns=columns))
    await s.create(thing(s.group, "t", a="x"), silent=True)
    await s.list(things(s.group), accept=TABLE)
    await s.list(things(s.group), accept=PARTIALS)
    await s.until(lambda: _discovered(s))
    answer = await s.ask("GET", f"/apis/{s.group}/v1", silent=True)
    for entry in answer.body["resources"]:
        entry.pop("storageVersionHash", None)
    s.check_step({"body": s.normal.tree(answer.body)})


async def _discovered(s: Session) -> bool:
    return (await s.ask("GET", f"/apis/{s.group}/v1", silent=True)).status == 200
