"""What Kueue did and Sluice does not do."""

from __future__ import annotations

from msgspec import structs

from queue_manager.adoption.losses import AdoptedObjects, losses
from tests.unit.visibility.build import Tree, cond, job, workload


def test_a_cluster_of_plain_jobs_has_no_losses() -> None:
    queue = {"kind": "ClusterQueue", "metadata": {"name": "cq"}, "spec": {"resourceGroups": []}}
    check = {"metadata": {"name": "ours"}, "spec": {"controllerName": "example.com/checker"}}
    trees = {"clusterqueues.kueue.x-k8s.io": [queue], "admissionchecks.kueue.x-k8s.io": [check]}
    assert losses(AdoptedObjects([workload("j")], trees)) == []


def test_kinds_other_than_job_are_counted_unless_they_have_ended() -> None:
    pod = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}]
    workloads = [workload(name, owners=pod) for name in "ab"]
    ended = workload("c", owners=pod, conditions=[cond("Finished")])
    (loss,) = losses(AdoptedObjects([*workloads, ended]))
    assert loss.object == "2 Workloads of kind Pod"
    assert "Jobs only" in loss.what


def test_admission_checks_that_kueue_answers_itself_are_named() -> None:
    check = {"metadata": {"name": "scale-up"}, "spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"}}
    (loss,) = losses(AdoptedObjects(trees={"admissionchecks.kueue.x-k8s.io": [check]}))
    assert loss.object == "AdmissionCheck scale-up"
    assert "provisioning-request" in loss.what


def test_a_kueue_that_does_not_know_what_is_stored_cannot_come_back() -> None:
    (loss,) = losses(AdoptedObjects(one_way=True))
    assert loss.object == "the way back"


def test_workloads_placed_by_topology_or_in_another_cluster_are_named() -> None:
    def tree(name: str, status: Tree) -> Tree:
        return {"metadata": {"name": name, "namespace": "team"}, "status": status}

    placed = tree(
        "a", {"admission": {"podSetAssignments": [{"name": "main", "topologyAssignment": {"levels": ["x"]}}]}}
    )
    elsewhere = tree("b", {"clusterName": "worker1"})
    found = losses(AdoptedObjects(trees={"workloads.kueue.x-k8s.io": [placed, elsewhere, tree("c", {})]}))
    assert [loss.object for loss in found] == ["Workload team/a", "Workload team/b"]


def test_fields_and_settings_without_effect_are_named_with_their_object() -> None:
    flavor = {"kind": "ResourceFlavor", "metadata": {"name": "tas"}, "spec": {"topologyName": "racks"}}
    objects = AdoptedObjects(
        trees={"resourceflavors.kueue.x-k8s.io": [flavor]}, ignored_settings=["multiKueue: Sluice does not dispatch"]
    )
    first, second = losses(objects)
    assert first.object == "ResourceFlavor tas"
    assert first.what.startswith("spec.topologyName: has no effect")
    assert second == ("KueueConfig", "multiKueue: Sluice does not dispatch")


def test_a_workload_whose_job_is_stopped_is_named_with_the_fields_that_differ() -> None:
    edited = job("j", suspend=False, requests={"cpu": "2", "memory": "1Gi"}, parallelism=3, completions=3)
    objects = AdoptedObjects([workload("j", conditions=[cond("QuotaReserved")])], jobs={edited.metadata.uid: edited})
    (loss,) = losses(objects)
    assert loss.object == "Workload default/job-j-12345"
    assert loss.what == (
        "its quota is not what Job j requests (count: 1, not 3, containers[0].resources.requests.cpu: 1, not 2, "
        "containers[0].resources.requests.memory: none, not 1Gi): the Job is stopped and queued again"
    )


def test_a_workload_with_the_request_of_its_job_differs_in_its_template() -> None:
    defaulted = job("j", suspend=False)
    container = {**defaulted.spec.template["spec"]["containers"][0], "terminationMessagePath": "/dev/log"}
    template = {**defaulted.spec.template, "spec": {**defaulted.spec.template["spec"], "containers": [container]}}
    edited = structs.replace(defaulted, spec=structs.replace(defaulted.spec, template=template))
    objects = AdoptedObjects([workload("j", conditions=[cond("QuotaReserved")])], jobs={edited.metadata.uid: edited})
    (loss,) = losses(objects)
    assert loss.what == (
        "its pod template is not that of Job j (containers[0].terminationMessagePath: none, not /dev/log): "
        "the Job is stopped and queued again"
    )
