"""Create, read and replace: what is stored, what is refused, what changes versions and generations."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, NAMESPACES, NODES, PODS
from queue_manager.engine.transport_protocol import MERGE_PATCH
from tests.contract.bodies import config_map, job, pod
from tests.contract.session import Session

Json = Any


async def test_a_create_is_answered_with_the_stored_object(s: Session) -> None:
    await s.create(config_map(labels={"a": "b"}, annotations={"c": "d"}))
    await s.get(CONFIG_MAPS, "a")


async def test_jobs_and_pods_are_stored_with_their_defaults(s: Session) -> None:
    await s.create(job())
    await s.create(pod())
    await s.create(job("indexed", {"completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1}))


async def test_a_create_with_a_name_in_use_is_refused(s: Session) -> None:
    await s.create(config_map())
    await s.create(config_map())


async def test_metadata_set_by_the_server_is_ignored_in_a_create(s: Session) -> None:
    owned = {
        "uid": "11111111-1111-4111-8111-111111111111",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "generation": 7,
        "selfLink": "/x",
    }
    await s.create(job("j", None, **owned))
    await s.create(config_map("a", None, **owned))


async def test_a_create_with_a_resource_version_is_refused(s: Session) -> None:
    await s.create(config_map("a", None, resourceVersion="1"))
    await s.create(config_map("a", None, resourceVersion="0"))


async def test_generate_name_appends_five_characters(s: Session) -> None:
    for _ in range(2):
        made = await s.create(config_map("", None, generateName="made-"))
        assert len(made.meta["name"]) == len("made-") + 5


async def test_a_name_beats_generate_name_and_a_long_prefix_is_cut(s: Session) -> None:
    await s.create(config_map("given", None, generateName="made-"))
    long = await s.create(config_map("", None, generateName="x" * 70), silent=True)
    assert len(long.meta["name"]) == 63
    await s.create(config_map("", None, generateName="Made-"), silent=True)


async def test_an_object_needs_a_name(s: Session) -> None:
    await s.create(config_map(""))
    await s.create(job("", None))


async def test_a_create_in_a_missing_namespace_is_refused(s: Session) -> None:
    await s.ask("POST", CONFIG_MAPS.path("nowhere"), config_map())
    await s.ask("GET", CONFIG_MAPS.path("nowhere"))
    await s.ask("GET", CONFIG_MAPS.path("nowhere", "a"))


async def test_an_update_without_a_version_is_unconditional(s: Session) -> None:
    await s.create(config_map())
    await s.replace(config_map("a", {"k": "w"}))


async def test_an_update_with_the_current_version_is_accepted_and_the_old_version_refused(s: Session) -> None:
    first = await s.create(config_map())
    second = await s.replace(config_map("a", {"k": "w"}, resourceVersion=first.version))
    await s.replace(config_map("a", {"k": "x"}, resourceVersion=first.version))
    await s.replace(config_map("a", {"k": "x"}, resourceVersion=second.version))


async def test_a_resource_version_that_is_not_a_number_is_refused(s: Session) -> None:
    await s.create(config_map())
    await s.replace(config_map("a", {"k": "w"}, resourceVersion="x"))
    await s.replace(config_map("a", {"k": "w"}, resourceVersion="0"))


async def test_an_update_that_changes_nothing_writes_nothing(s: Session) -> None:
    first = await s.create(config_map())
    again = await s.replace(first.body)
    assert again.version == first.version


async def test_an_update_with_another_uid_is_refused(s: Session) -> None:
    await s.create(config_map())
    await s.replace(config_map("a", None, uid="11111111-1111-4111-8111-111111111111"))


async def test_an_update_of_a_missing_object_is_refused(s: Session) -> None:
    await s.replace(config_map())
    await s.replace(job())


async def test_an_update_must_name_the_object_of_the_url(s: Session) -> None:
    await s.create(config_map())
    path = s.path(CONFIG_MAPS, "a")
    await s.ask("PUT", path, config_map("b"))
    await s.ask("PUT", path, config_map(""))
    await s.ask("PUT", path, config_map("a", None, namespace="other"))


async def test_generation_counts_changes_of_the_spec_only(s: Session) -> None:
    created = await s.create(job())
    body = created.body
    body["metadata"]["labels"]["more"] = "yes"
    labelled = await s.replace(body)
    body = labelled.body
    body["spec"]["parallelism"] = 3
    await s.replace(body)
    body["metadata"].pop("resourceVersion")
    body["metadata"]["generation"] = 9
    await s.replace(body)


async def test_pods_have_a_generation(s: Session) -> None:
    made = await s.create(pod())
    body = made.body
    body["spec"]["activeDeadlineSeconds"] = 9
    await s.replace(body)


async def test_a_status_is_written_only_through_its_subresource(s: Session) -> None:
    body = job()
    body["status"] = {"active": 3}
    created = await s.create(body)
    body = created.body | {"status": {"active": 2}}
    body["spec"]["parallelism"] = 4  # a change, so that both servers write
    await s.replace(body)
    body["metadata"].pop("resourceVersion")
    body["spec"] = body["spec"] | {"parallelism": 5}
    await s.replace(body, "status")
    await s.get(JOBS, "j")
    await s.ask("GET", s.path(JOBS, "j", "status"))


async def test_a_status_update_also_updates_metadata(s: Session) -> None:
    created = await s.create(job())
    body = created.body
    body["metadata"]["labels"]["more"] = "yes"
    body["metadata"]["annotations"] = {"a": "b"}
    await s.replace(body, "status")


async def test_kinds_without_status_have_no_status_subresource(s: Session) -> None:
    await s.create(config_map())
    await s.ask("GET", s.path(CONFIG_MAPS, "a", "status"))
    await s.ask("PUT", s.path(CONFIG_MAPS, "a", "status"), config_map())


async def test_names_labels_and_annotations_are_validated(s: Session) -> None:
    await s.create(config_map("Upper"))
    await s.create(config_map("a" * 254))
    await s.create(config_map("a", None, labels={"-x": "y"}))
    await s.create(config_map("a", None, labels={"x": "y y"}))
    await s.create(config_map("a", None, annotations={"a b": "c"}))
    await s.create(config_map("a", None, finalizers=["noslash"]))
    await s.create(config_map("a", None, ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x"}]))
    await s.create(config_map("a", {"a/b": "c"}))


async def test_owner_references_are_validated(s: Session) -> None:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": True}
    await s.create(config_map("a", None, ownerReferences=[reference, reference | {"uid": "v"}]))
    await s.create(config_map("b", None, ownerReferences=[{}]))
    await s.create(config_map("c", None, ownerReferences=[reference | {"kind": "Event"}]))
    await s.create(config_map("d", None, ownerReferences=[reference]))


async def test_a_change_of_an_immutable_field_is_refused_with_its_path(s: Session) -> None:
    await s.create(job("j", {"completions": 2}))
    changed = job("j", {"completions": 3})
    await s.replace(changed)
    await s.create(pod())
    await s.replace(pod("p", {"restartPolicy": "Never"}))


async def test_an_immutable_config_map_cannot_be_changed(s: Session) -> None:
    await s.create(config_map() | {"immutable": True})
    await s.replace(config_map("a", {"k": "w"}))
    await s.replace(config_map("a", {"k": "w"}) | {"immutable": True})


async def test_null_fields_count_as_absent(s: Session) -> None:
    await s.create(config_map("a", None, labels=None, annotations=None) | {"data": None, "binaryData": None})
    await s.create(job("j", {"parallelism": None, "suspend": None}))


async def test_a_namespace_has_its_name_as_a_label(s: Session) -> None:
    name = f"{s.namespace}-more"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await s.ask("POST", NAMESPACES.path(), body)
    await s.ask("PUT", NAMESPACES.path(name=name), body | {"metadata": {"name": name, "labels": {"a": "b"}}})
    await s.ask("POST", NAMESPACES.path(), body | {"metadata": {"name": "with.dot"}})


async def test_a_new_pod_has_a_phase_and_a_qos_class(s: Session) -> None:
    await s.create(pod("p", {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "1"}}}]}))
    await s.ask("GET", s.path(PODS, "p", "status"))


async def test_a_pod_is_validated_more_strictly_than_a_template(s: Session) -> None:
    container = {"name": "a", "image": "x", "imagePullPolicy": "Never"}
    spaced = {"containers": [{**container, "image": " x"}]}
    await s.create(pod("spaced", spaced))
    await s.create(job("spaced", {"template": {"spec": {**spaced, "restartPolicy": "Never"}}}))
    gated = {"containers": [container], "schedulingGates": [{"name": "example.com/g"}], "nodeName": "n"}
    await s.create(pod("gated", gated))


async def test_a_pod_is_bound_once(s: Session) -> None:
    await s.create(pod())
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    await s.ask("POST", s.path(PODS, "p", "binding"), binding)
    await s.ask("POST", s.path(PODS, "p", "binding"), binding)
    await s.get(PODS, "p")


POD_LIMIT = {"type": "Pod", "max": {"cpu": "1"}}
FINALIZED: list[Json] = [
    config_map("o"),
    job("o"),
    pod("o"),
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "o"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "o"}},
    {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "o"}, "spec": {"limits": [POD_LIMIT]}},
    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "o"}, "spec": {}},
]


@pytest.mark.parametrize("obj", FINALIZED, ids=lambda obj: obj["kind"])
async def test_finalizer_names_are_validated_on_create_and_update(s: Session, obj: Json) -> None:
    path = s.path(s.resource_of(obj))
    assert (await s.ask("POST", path, obj, silent=True)).status == 201
    for names in (["example.com/ok"], ["noslash"], ["example.com/ok", "a b/c"]):
        patch = {"metadata": {"finalizers": names}}
        answer = await s.ask("PATCH", f"{path}/o", patch, content_type=MERGE_PATCH, silent=True)
        s.check_step({"finalizers": names, "status": answer.status})
    await s.ask("PATCH", f"{path}/o", {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH, silent=True)


async def test_a_new_image_does_not_change_the_pull_policy(s: Session) -> None:
    await s.create(pod(), silent=True)
    await s.replace(pod("p", {"containers": [{"name": "main", "image": "app:2"}]}))
    await s.replace(pod("p", {"containers": [{"name": "main", "image": "app"}]}))


async def test_scheduling_gates_can_only_be_removed(s: Session) -> None:
    """The test adds one gate, since the real server names several in random order."""
    gates = [{"name": f"example.com/{name}"} for name in "ab"]
    await s.create(pod("p", {"schedulingGates": gates[:1]}), silent=True)
    await s.replace(pod("p", {"schedulingGates": gates}))


@pytest.mark.parametrize("obj", FINALIZED, ids=lambda obj: obj["kind"])
async def test_a_put_creates_objects_of_some_kinds(s: Session, obj: Json) -> None:
    await s.replace(obj)
    await s.replace(obj, dryRun="All")
    await s.replace(obj | {"metadata": {"name": "o", "resourceVersion": "1"}})


async def test_the_status_of_a_node_is_validated(s: Session) -> None:
    name = f"{s.namespace}-node"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    assert (await s.ask("POST", NODES.path(), node, silent=True)).status == 201
    address = {"type": "InternalIP", "address": "10.0.0.1"}
    for status in (
        {"allocatable": {"cpu": "-1"}},
        {"allocatable": {"example.com/gpu": "1.5", "kubernetes.io/x": "1.5", "cpu": "1.5"}},
        {"addresses": [address, address]},
    ):
        path = NODES.path(name=name, subresource="status")
        await s.ask("PATCH", path, {"status": status}, content_type=MERGE_PATCH)
    await s.ask("DELETE", NODES.path(name=name), silent=True)


def limits(**item: Json) -> Json:
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [item]}}


async def test_limit_ranges_are_validated(s: Session) -> None:
    await s.create(limits(type="PersistentVolumeClaim", default={"storage": "1Gi"}))
    await s.create(limits(type="Pod", maxLimitRequestRatio={"cpu": "0.5"}))
    await s.create(limits(type="Pod", min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "3"}))


async def test_an_absent_allocatable_of_a_node_defaults_to_its_capacity(s: Session) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": s.namespace}, "status": {"capacity": {"cpu": "2"}}}
    await s.ask("POST", NODES.path(), body)
    at = NODES.path(name=s.namespace, subresource="status")
    for change in ({"capacity": {"x.y/z": "3"}}, {"allocatable": None}):
        await s.ask("PATCH", at, {"status": change}, content_type=MERGE_PATCH)
    await s.ask("DELETE", NODES.path(name=s.namespace), silent=True)


async def test_very_large_and_very_small_quantities_are_stored_exactly(s: Session) -> None:
    for name, amount in {
        "a": "0.1Gi",
        "b": "57E",
        "c": "1e21",
        "d": "1e101",
        "e": "5kk",
        "f": "--5",
        "g": "1,5",
    }.items():
        cache = {"name": "cache", "emptyDir": {"sizeLimit": amount}}
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": amount}}}
        await s.create(pod(name, {"containers": [container], "volumes": [cache]}))
