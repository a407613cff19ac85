"""Server-side apply: ownership of fields, conflicts, force; and what other writes record in managedFields."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS, Resource
from queue_manager.engine.transport_protocol import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.contract.bodies import config_map, definition, job, pod, thing, things
from tests.contract.session import Answer, Session

Json = Any
APPLY = "application/apply-patch+yaml"
CONTAINER: Json = {"name": "main", "image": "app:1"}


async def apply(s: Session, who: str, obj: Json, subresource: str = "", **options: Any) -> Answer:
    """Apply an object as a field manager."""
    resource, name = s.resource_of(obj), obj["metadata"]["name"]
    return await s.patch(resource, name, obj, APPLY, subresource, fieldManager=who, **options)


def labelled(obj: Json, **labels: str) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


@pytest.fixture
def m(s: Session) -> Session:
    """A session in which managedFields are compared too."""
    s.show_managed_fields()
    return s


# --- ownership -------------------------------------------------------------------------------------------------


async def test_an_apply_creates_the_object_and_owns_the_applied_fields(m: Session) -> None:
    await apply(m, "one", config_map("a", {"k": "v"}))
    await apply(m, "one", config_map("a", {"k": "v"}))
    await m.get(CONFIG_MAPS, "a")


async def test_a_field_left_out_of_the_next_apply_is_removed_unless_others_own_it(m: Session) -> None:
    await apply(m, "one", config_map("a", {"k": "v", "l": "w"}))
    await apply(m, "two", config_map("a", {"l": "w"}))
    await apply(m, "one", config_map("a", {"n": "x"}))
    await apply(m, "two", config_map("a", {}))


async def test_applying_another_value_to_an_owned_field_is_a_conflict_with_its_manager(m: Session) -> None:
    await apply(m, "one", config_map("a", {"k": "v", "l": "w"}))
    await apply(m, "two", config_map("a", {"k": "other", "l": "other"}))
    await apply(m, "two", config_map("a", {"k": "v"}))
    await apply(m, "three", config_map("a", {"l": "other"}))
    await m.get(CONFIG_MAPS, "a")


async def test_a_forced_apply_takes_over_the_fields_in_conflict(m: Session) -> None:
    await apply(m, "one", config_map("a", {"k": "v", "l": "w"}))
    await apply(m, "two", config_map("a", {"k": "other"}), force=True)
    await apply(m, "one", config_map("a", {"k": "v"}), force=False)
    await apply(m, "one", config_map("a", {"k": "v"}), force=True)


async def test_an_update_of_an_applied_field_takes_it_over(m: Session) -> None:
    await apply(m, "one", config_map("a", {"k": "v", "l": "w"}))
    await m.replace(config_map("a", {"k": "changed", "l": "w"}), fieldManager="editor")
    await apply(m, "one", config_map("a", {"k": "v", "l": "w"}))
    await apply(m, "one", config_map("a", {"k": "v", "l": "w"}), force=True)


async def test_one_manager_name_owns_fields_separately_per_operation(m: Session) -> None:
    await m.create(config_map("a", {"k": "v"}), fieldManager="one")
    await apply(m, "one", config_map("a", {"k": "other"}))
    await apply(m, "one", config_map("a", {"k": "v", "l": "w"}))


@pytest.mark.parametrize("dry", [{}, {"dryRun": "All"}], ids=str)
async def test_a_dry_run_apply_is_answered_and_not_stored(m: Session, dry: Json) -> None:
    await apply(m, "one", config_map("a", {"k": "v"}), **dry)
    await apply(m, "two", config_map("a", {"k": "other"}), force=True, **dry)
    await m.get(CONFIG_MAPS, "a")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fieldManager": ""},
        {"fieldManager": "", "fieldValidation": "Sometimes"},
        {"fieldManager": "x" * 129},
        {"fieldManager": "ok", "fieldValidation": "Strict"},
    ],
    ids=lambda options: "-".join(options) + str(len(str(options))),
)
async def test_an_apply_needs_a_field_manager(m: Session, options: Json) -> None:
    await m.patch(CONFIG_MAPS, "a", config_map("a"), APPLY, **options)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "ConfigMap", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": 1}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "unknown": 1},
        b"a: [",
        b"",
    ],
    ids=str,
)
async def test_an_invalid_apply_is_refused(m: Session, body: Json) -> None:
    await apply(m, "one", config_map("a", {"k": "v"}), silent=True)
    await m.patch(CONFIG_MAPS, "a", body, APPLY, fieldManager="one")


async def test_an_apply_in_yaml_equals_one_in_json(m: Session) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: 'v'\n"
    await m.patch(CONFIG_MAPS, "a", text, APPLY, fieldManager="one")


async def test_managers_share_the_sets_of_finalizers_and_owner_references(m: Session) -> None:
    first = config_map("a", {}, finalizers=["example.com/a"])
    await apply(m, "one", first)
    await apply(m, "two", config_map("a", {}, finalizers=["example.com/b"]))
    await apply(m, "one", config_map("a", {}))


# --- kinds with lists ------------------------------------------------------------------------------------------


async def test_containers_are_merged_by_name_and_owned_one_by_one(m: Session) -> None:
    env = [{"name": "X", "value": "1"}]
    await apply(m, "one", pod("p", {"containers": [CONTAINER, {"name": "side", "image": "side:1"}]}))
    await apply(m, "two", pod("p", {"containers": [{"name": "main", "image": "app:2"}]}))
    await apply(m, "two", pod("p", {"containers": [{"name": "main", "image": "app:2"}]}), force=True)
    await apply(m, "two", pod("p", {"containers": [{"name": "main", "env": env}]}), differs="causes-order")
    await apply(m, "one", pod("p", {"containers": [CONTAINER]}))


async def test_one_manager_applies_a_job_and_another_scales_it(m: Session) -> None:
    await apply(m, "one", job("j", {"parallelism": 1}))
    await m.patch(JOBS, "j", {"spec": {"parallelism": 3}}, fieldManager="scaler")
    await apply(m, "one", job("j", {"parallelism": 1}))
    await apply(m, "one", job("j"))
    await apply(m, "one", job("j", {"suspend": True}))


async def test_an_applied_job_is_validated(m: Session) -> None:
    await apply(m, "one", job("j", {"parallelism": -1}))
    await apply(m, "one", job("j", {"completions": 2}))
    await apply(m, "one", job("j", {"completions": 3}))


async def test_an_applied_status_is_owned_by_its_manager(m: Session) -> None:
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    await m.create(job(), fieldManager="user")
    await m.patch(JOBS, "j", {"status": {"active": 1}}, subresource="status", fieldManager="controller")
    await apply(m, "other", {**head, "status": {"active": 2}}, "status")
    await apply(m, "other", {**head, "status": {"active": 2}}, "status", force=True)
    await apply(m, "other", {**head, "status": {"ready": 1}}, "status")
    await apply(m, "user", {**head, "spec": {"parallelism": 5}, "status": {"active": 9}}, "status")


# --- custom kinds ----------------------------------------------------------------------------------------------


SCHEMA: Json = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 3},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "words": {"type": "array", "items": {"type": "string"}},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}},
            },
        },
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"size": 1}, {"size": 2}),
        ({"tags": ["a"]}, {"tags": ["b"]}),
        ({"words": ["a"]}, {"words": ["b"]}),
        ({"ports": [{"name": "a"}]}, {"ports": [{"name": "b", "port": 1}]}),
        ({"ports": [{"name": "a", "port": 1}]}, {"ports": [{"name": "a", "port": 2}]}),
        ({"whole": {"a": "1"}}, {"whole": {"b": "2"}}),
        ({"size": 1}, {"unknown": 2}),
    ],
    ids=str,
)
async def test_lists_and_maps_of_custom_kinds_are_owned_as_their_schema_says(
    m: Session, first: Json, second: Json
) -> None:
    await m.define(definition(m.group, SCHEMA))
    await apply(m, "one", thing(m.group, "t", **first))
    await apply(m, "two", thing(m.group, "t", **second))
    await apply(m, "two", thing(m.group, "t", **second), force=True)
    await apply(m, "one", thing(m.group, "t"))


async def test_the_status_of_a_custom_object_is_owned_separately(m: Session) -> None:
    await m.define(definition(m.group, SCHEMA))
    await apply(m, "one", thing(m.group, "t", size=1))
    await apply(m, "controller", thing(m.group, "t", size=2) | {"status": {"phase": "x"}}, "status")
    await apply(m, "one", thing(m.group, "t", size=2) | {"status": {"phase": "y"}})


# --- managedFields of other writes -----------------------------------------------------------------------------


PATCHES: list[tuple[Resource, str, Json, str]] = [
    (CONFIG_MAPS, MERGE_PATCH, {"data": {"l": "w"}}, ""),
    (CONFIG_MAPS, MERGE_PATCH, {"data": None}, ""),
    (CONFIG_MAPS, JSON_PATCH, [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], ""),
    (PODS, STRATEGIC_PATCH, {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}, ""),
    (PODS, STRATEGIC_PATCH, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status"),
    (JOBS, MERGE_PATCH, {"spec": {"suspend": True}, "status": {"active": 1}}, ""),
    (JOBS, MERGE_PATCH, {"spec": {"suspend": True}, "status": {"active": 1}}, "status"),
]


@pytest.mark.parametrize(
    ("resource", "language", "patch", "subresource"), PATCHES, ids=lambda value: str(getattr(value, "plural", value))
)
async def test_a_patch_owns_the_changed_fields(
    m: Session, resource: Resource, language: str, patch: Json, subresource: str
) -> None:
    objects = {CONFIG_MAPS: config_map("o"), PODS: pod("o"), JOBS: job("o")}
    await m.create(objects[resource], fieldManager="maker")
    await m.patch(resource, "o", patch, language, subresource, fieldManager="patcher")
    await m.patch(resource, "o", patch, language, subresource, fieldManager="maker")


async def test_an_update_owns_the_changed_fields_and_disowns_the_removed_ones(m: Session) -> None:
    made = await m.create(config_map("a", {"k": "v", "l": "w"}), fieldManager="maker")
    await m.replace({**made.body, "data": {"k": "changed"}}, fieldManager="editor")
    await m.replace(config_map("a", {"n": "x"}), fieldManager="maker")


async def test_the_default_field_manager_is_the_program_name_of_the_user_agent(m: Session) -> None:
    await m.create(config_map())
    await m.patch(CONFIG_MAPS, "a", {"data": {"l": "w"}})


async def test_a_client_may_empty_managed_fields_and_not_edit_them(m: Session) -> None:
    made = await m.create(config_map(), fieldManager="maker")
    body = made.body
    body["metadata"]["managedFields"] = [{}]
    await m.replace(body, fieldManager="editor")
    await m.patch(CONFIG_MAPS, "a", {"metadata": {"managedFields": [{"manager": "x", "operation": "Jump"}]}})
    await m.patch(CONFIG_MAPS, "a", {"data": {"l": "w"}}, fieldManager="later")


async def test_fields_without_owner_belong_to_before_first_apply(m: Session) -> None:
    await m.create(config_map("a", {"k": "v"}), fieldManager="maker", silent=True)
    await m.patch(CONFIG_MAPS, "a", {"metadata": {"managedFields": [{}]}}, silent=True)
    await apply(m, "one", config_map("a", {"k": "other"}))
    await apply(m, "one", config_map("a", {"k": "other"}), force=True)


async def test_applying_only_labels_owns_only_labels(m: Session) -> None:
    await apply(m, "one", labelled(config_map("a", {"k": "v"}), x="1"))
    await apply(m, "two", labelled({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, y="2"))
    await m.patch(things(m.group), "a", {}, APPLY, fieldManager="one")


async def test_labels_defaulted_from_the_template_are_owned_by_the_creator(s: Session) -> None:
    s.show_managed_fields()
    spec = job()["spec"]["template"]["spec"]
    await s.create(job("j", {"template": {"metadata": {"labels": {"team": "a"}}, "spec": spec}}))
    await s.ask("GET", NAMESPACES.path(name=s.namespace))
