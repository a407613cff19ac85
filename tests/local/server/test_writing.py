"""Create, update, patch: what is stored and what is answered."""

from __future__ import annotations

import asyncio

import pytest

from job_controller.api_rules.field_errors import FieldError, invalid
from queue_manager.api.api_resources import CONFIG_MAPS, CRDS, JOBS, NAMESPACES, PODS
from queue_manager.local.server.admission_plugin_protocol import AdmissionReview
from tests.local.server.world import World, config_map, job, path, pod

JOBS_PATH = JOBS.path("default")


async def test_a_created_object_gets_uid_time_revision_and_generation(world: World) -> None:
    meta = (await world.create(JOBS, job("j")))["metadata"]
    assert meta["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert meta["generation"] == 1
    assert meta["namespace"] == "default"
    assert meta["resourceVersion"] == str(world.store.revision)
    assert len(meta["uid"]) == 36


async def test_metadata_set_by_the_server_is_ignored_on_create(world: World) -> None:
    sent = job("j", uid="mine", generation=7, deletionTimestamp="2020-01-01T00:00:00Z", selfLink="/x")
    meta = (await world.create(JOBS, sent))["metadata"]
    assert meta["uid"] != "mine"
    assert meta["generation"] == 1
    assert not {"deletionTimestamp", "selfLink"} & set(meta)


async def test_status_is_dropped_at_creation(world: World) -> None:
    assert "status" not in await world.create(JOBS, job("j") | {"status": {"active": 3}})


async def test_generate_name_gives_a_free_name(world: World) -> None:
    first, second = [await world.create(PODS, pod(generateName="p-")) for _ in range(2)]
    assert first["metadata"]["name"].startswith("p-")
    assert first["metadata"]["name"] != second["metadata"]["name"]


async def test_an_update_counts_generation_only_when_the_spec_changes(world: World) -> None:
    obj = await world.create(JOBS, job("j"))
    obj["metadata"]["labels"] = {"a": "b"}
    labelled = (await world.ask("PUT", path(JOBS, "j"), obj)).body
    assert labelled["metadata"]["generation"] == 1
    labelled["spec"]["parallelism"] = 5
    scaled = (await world.ask("PUT", path(JOBS, "j"), labelled)).body
    assert scaled["metadata"]["generation"] == 2


async def test_an_update_that_changes_nothing_keeps_the_revision(world: World) -> None:
    obj = await world.create(JOBS, job("j"))
    again = await world.ask("PUT", path(JOBS, "j"), obj)
    assert again.body == obj
    assert world.store.revision == int(obj["metadata"]["resourceVersion"])


async def test_an_update_without_a_revision_is_unconditional(world: World) -> None:
    await world.create(JOBS, job("j"))
    answer = await world.ask("PUT", path(JOBS, "j"), job("j", labels={"x": "y"}))
    assert answer.status == 200
    assert answer.body["metadata"]["labels"] == {"x": "y"}
    assert answer.body["metadata"]["creationTimestamp"]


async def test_the_main_resource_and_status_do_not_touch_each_other(world: World) -> None:
    obj = await world.create(JOBS, job("j"))
    both = {**obj, "spec": {"parallelism": 9}, "status": {"active": 1}}
    reported = (await world.ask("PUT", path(JOBS, "j", subresource="status"), both)).body
    assert (reported["spec"], reported["status"]) == ({"parallelism": 1}, {"active": 1})
    del both["metadata"]["resourceVersion"]
    changed = (await world.ask("PUT", path(JOBS, "j"), both | {"status": {"active": 5}})).body
    assert (changed["spec"], changed["status"]) == ({"parallelism": 9}, {"active": 1})


async def test_status_updates_do_not_count_generation(world: World) -> None:
    obj = await world.create(JOBS, job("j"))
    answer = await world.ask("PUT", path(JOBS, "j", subresource="status"), obj | {"status": {"active": 1}})
    assert answer.body["metadata"]["generation"] == 1


async def test_a_merge_patch_changes_what_it_names(world: World) -> None:
    await world.create(JOBS, job("j", labels={"a": "1", "b": "2"}))
    patch = {"metadata": {"labels": {"a": None, "c": "3"}}}
    answer = await world.ask("PATCH", path(JOBS, "j"), patch, content_type="application/merge-patch+json")
    assert answer.status == 200
    assert answer.body["metadata"]["labels"] == {"b": "2", "c": "3"}


async def test_a_patch_with_a_stale_revision_is_a_conflict(world: World) -> None:
    await world.create(JOBS, job("j"))
    patch = {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}
    answer = await world.ask("PATCH", path(JOBS, "j"), patch, content_type="application/merge-patch+json")
    assert (answer.status, answer.reason) == (409, "Conflict")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_a_dry_run_answers_and_changes_nothing(world: World, method: str) -> None:
    obj = await world.create(JOBS, job("j"))
    before = world.store.revision
    body = {"POST": job("other"), "PUT": obj | {"spec": {"parallelism": 8}}, "DELETE": None}[method]
    target = JOBS_PATH if method == "POST" else path(JOBS, "j")
    answer = await world.ask(method, target, body, dryRun="All")
    assert answer.status == {"POST": 201}.get(method, 200)
    assert world.store.revision == before
    assert await world.get(JOBS, "j") == obj


async def test_removing_the_last_finalizer_deletes_the_object(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("c", finalizers=["x/y"]))
    marked = (await world.ask("DELETE", path(CONFIG_MAPS, "c"))).body
    assert marked["metadata"]["deletionTimestamp"]
    del marked["metadata"]["finalizers"]
    assert (await world.ask("PUT", path(CONFIG_MAPS, "c"), marked)).status == 200
    assert (await world.ask("GET", path(CONFIG_MAPS, "c"))).status == 404


async def test_a_deleted_object_takes_no_new_finalizers(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("c", finalizers=["x/y"]))
    marked = (await world.ask("DELETE", path(CONFIG_MAPS, "c"))).body
    marked["metadata"]["finalizers"] += ["new/two", "new/one", "new/two"]
    answer = await world.ask("PUT", path(CONFIG_MAPS, "c"), marked)
    assert answer.status == 422
    refusal = "no new finalizers can be added if the object is being deleted, found new finalizers "
    assert refusal + '[]string{"new/one", "new/two"}' in answer.message


async def test_yaml_bodies_are_read(world: World) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {when: 2026-01-01}\n"
    answer = await world.ask("POST", CONFIG_MAPS.path("default"), text, content_type="application/yaml")
    assert answer.status == 201
    assert answer.body["data"] == {"when": "2026-01-01"}


async def test_unknown_fields_are_dropped_with_a_warning(world: World) -> None:
    answer = await world.ask("POST", JOBS_PATH, job("j") | {"foo": 1})
    assert answer.headers["Warning"] == '299 - "unknown field \\"foo\\""'
    assert "foo" not in answer.body


async def test_unknown_fields_are_refused_when_strict(world: World) -> None:
    answer = await world.ask("POST", JOBS_PATH, job("j") | {"foo": 1}, fieldValidation="Strict")
    assert answer.status == 400
    assert answer.message == (
        'Job in version "v1" cannot be handled as a Job: strict decoding error: unknown field "foo"'
    )


async def test_unknown_fields_are_dropped_silently_when_ignored(world: World) -> None:
    answer = await world.ask("POST", JOBS_PATH, job("j") | {"foo": 1}, fieldValidation="Ignore")
    assert "Warning" not in answer.headers
    assert answer.status == 201


async def test_a_new_definition_is_served_and_a_deleted_one_is_not(world: World) -> None:
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c.x"}}
    await world.create(CRDS, crd)
    assert world.registry.installed == ["c.x"]
    await world.ask("DELETE", path(CRDS, "c.x"))
    assert world.registry.installed == []


async def test_objects_of_a_deleted_definition_are_gone(world: World) -> None:
    spec = {"group": "batch", "names": {"plural": "jobs"}}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c.x"}}
    await world.create(CRDS, crd | {"spec": spec})
    await world.create(JOBS, job("j"))
    await world.ask("DELETE", path(CRDS, "c.x"))
    await asyncio.sleep(0)
    assert (await world.ask("GET", path(JOBS, "j"))).status == 404


async def test_the_system_namespaces_exist(world: World) -> None:
    listed = (await world.ask("GET", NAMESPACES.path())).body["items"]
    assert {item["metadata"]["name"] for item in listed} >= {"default", "kube-system"}


class LabelAdmission:
    """Adds a label to every object, and refuses objects with a certain label."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def mutate(self, review: AdmissionReview) -> list[FieldError] | None:
        if review.operation != "DELETE":
            review.object["metadata"].setdefault("labels", {})["touched"] = "yes"
        return None

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        self.seen.append((review.operation, str(review.resource), review.subresource))
        review.warnings.append("looked at")
        refused = review.object["metadata"].get("annotations", {}).get("say") == "no"
        return [invalid("metadata.annotations[say]", "no", "must be kinder")] if refused else []


async def test_admission_changes_and_sees_every_write() -> None:
    rules = LabelAdmission()
    world = World(admission=[rules])
    obj = await world.create(JOBS, job("j"))
    assert obj["metadata"]["labels"] == {"touched": "yes"}
    obj = (await world.ask("PUT", path(JOBS, "j"), obj | {"spec": {}})).body
    await world.ask("PUT", path(JOBS, "j", subresource="status"), obj | {"status": {"active": 1}})
    answer = await world.ask("DELETE", path(JOBS, "j"), propagationPolicy="Background")
    assert "Warning" in answer.headers
    assert rules.seen == [
        ("CREATE", "jobs.batch", ""),
        ("UPDATE", "jobs.batch", ""),
        ("UPDATE", "jobs.batch", "status"),
        ("DELETE", "jobs.batch", ""),
    ]


async def test_admission_refuses_with_causes() -> None:
    world = World(admission=[LabelAdmission()])
    answer = await world.ask("POST", JOBS_PATH, job("j", annotations={"say": "no"}))
    assert answer.status == 422
    assert answer.message == (
        'Job.batch "j" is invalid: metadata.annotations[say]: Invalid value: "no": must be kinder'
    )
    assert answer.body["details"]["causes"][0]["reason"] == "FieldValueInvalid"


async def test_an_older_copy_without_a_change_is_no_write(world: World) -> None:
    """It has the times of managers at which it was read; those of the stored object are newer by a second."""
    created = await world.create(JOBS, job("j"))
    older = (await world.ask("PUT", path(JOBS, "j"), created | {"spec": created["spec"] | {"parallelism": 2}})).body
    world.clock.pass_seconds(1)
    changed = older | {"spec": older["spec"] | {"parallelism": 3}}
    stored = (await world.ask("PUT", path(JOBS, "j"), changed)).body
    assert stored["metadata"]["managedFields"] != older["metadata"]["managedFields"]
    changed["metadata"] = {name: each for name, each in older["metadata"].items() if name != "resourceVersion"}
    assert (await world.ask("PUT", path(JOBS, "j"), changed)).body == stored
