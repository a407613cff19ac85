"""The patches that start and stop a Job."""

import msgspec
import pytest

from queue_manager.api.types import Workload
from queue_manager.jobs import start_stop
from queue_manager.jobs.workload_manifest import Priority, new_workload
from tests.unit.jobs.test_decide import job
from tests.unit.queueing.builders import flavor, wire

SPOT = {"key": "spot", "operator": "Exists"}
FLAVORS = {
    "gpu": flavor("gpu", nodeLabels={"kind": "gpu"}, tolerations=[SPOT]),
    "cpu": flavor("cpu", nodeLabels={"zone": "a"}),
}
LEAST = {"kueue.x-k8s.io/job-min-parallelism": "1"}
EQUAL = LEAST | {"kueue.x-k8s.io/job-completions-equal-parallelism": "true"}


def admitted(of, count=1, flavors=("gpu", "cpu"), updates=(), reclaimed=0):
    tree = new_workload(of, Priority())
    assigned = {"name": "main", "flavors": {f"r{i}": name for i, name in enumerate(flavors)}, "count": count}
    check = {
        "name": "c",
        "state": "Ready",
        "message": "",
        "lastTransitionTime": wire(0),
        "podSetUpdates": list(updates),
    }
    tree["status"] = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]},
        "admissionChecks": [check],
        "reclaimablePods": [{"name": "main", "count": reclaimed}] if reclaimed else [],
    }
    return msgspec.convert(tree, Workload)


def started(of, *args, **kwargs):
    return start_stop.start(of, admitted(of, *args, **kwargs), FLAVORS)["spec"]


def test_a_start_injects_all_flavors_and_each_toleration_once():
    spec = started(job(pod={"tolerations": [{"key": "own"}, SPOT], "nodeSelector": {"zone": "a"}}))["template"]["spec"]
    assert spec == {"nodeSelector": {"kind": "gpu", "zone": "a"}}
    spec = started(job(pod={"tolerations": [{"key": "own"}]}))["template"]["spec"]
    assert spec["tolerations"] == [{"key": "own"}, SPOT]


def test_a_job_whose_flavor_is_gone_is_not_started_on_any_node():
    with pytest.raises(start_stop.FlavorMissing, match=r"missing ResourceFlavor\(s\): gone, lost"):
        started(job(), flavors=("cpu", "gone", "lost"))


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"pod": {"nodeSelector": {"kind": "cpu"}}}, "nodeSelector"),
        ({"template_labels": {"kueue.x-k8s.io/podset": "other"}}, "labels"),
    ],
)
def test_a_template_that_contradicts_a_flavor_cannot_start(template, field):
    with pytest.raises(start_stop.TemplateConflict, match=f"conflict for {field}"):
        started(job(**template))


def test_pod_updates_of_checks_apply_to_their_pod_set_without_conflicts():
    update = {
        "labels": {"l": "1"},
        "annotations": {"n": "2"},
        "nodeSelector": {"s": "3"},
        "tolerations": [{"key": "t"}],
    }
    template = started(job(), updates=[{"name": "main", **update}, {"name": "other", "labels": {"l": "9"}}])["template"]
    assert template["metadata"]["labels"]["l"] == "1"
    assert template["metadata"]["annotations"]["n"] == "2"
    assert template["spec"]["nodeSelector"]["s"] == "3"
    assert template["spec"]["tolerations"] == [SPOT, {"key": "t"}]
    for wrong in ({"nodeSelector": {"kind": "x"}}, {"labels": {"own": "x"}}):
        with pytest.raises(start_stop.TemplateConflict):
            started(job(template_labels={"own": "1"}), updates=[{"name": "main", **wrong}])


def test_two_checks_that_contradict_each_other_are_a_conflict():
    both = [{"name": "main", "nodeSelector": {"s": value}} for value in "12"]
    with pytest.raises(start_stop.TemplateConflict, match="value1=1, value2=2"):
        started(job(), updates=both)


@pytest.mark.parametrize(
    ("notes", "parallelism", "completions", "count", "size"),
    [
        (LEAST, 4, 8, 2, {"parallelism": 2}),
        (EQUAL, 4, 4, 2, {"parallelism": 2, "completions": 2}),
        (LEAST, 4, 8, 4, {}),
        ({}, 4, 8, 2, {}),
    ],
)
def test_a_smaller_admission_makes_the_job_smaller_until_it_is_stopped(notes, parallelism, completions, count, size):
    wanted = job(annotations=notes, parallelism=parallelism, completions=completions)
    w = admitted(wanted, count)
    spec = start_stop.start(wanted, w, FLAVORS)["spec"]
    assert {key: spec[key] for key in ("parallelism", "completions") if key in spec} == size
    shrunk = job(annotations=notes, **({"parallelism": parallelism, "completions": completions} | size))
    restored = start_stop.restore(shrunk, w).get("spec", {})
    before = {"parallelism": parallelism, "completions": completions}
    assert {key: restored[key] for key in size} == {key: before[key] for key in size}
    assert start_stop.must_restore(shrunk, w) is bool(size)


@pytest.mark.parametrize(("noted", "restored"), [("9", 9), ("x", 4), ("9" * 5000, 4), (None, 4)])
def test_a_parallelism_above_the_completions_is_noted_at_the_start_and_restored(noted, restored):
    wanted = job(annotations=LEAST, parallelism=9, completions=4)
    w = admitted(wanted, 2)
    assert start_stop.start(wanted, w, FLAVORS)["metadata"]["annotations"] == {"sluice/parallelism": "9"}
    notes = LEAST | ({} if noted is None else {"sluice/parallelism": noted})
    stop = start_stop.restore(job(annotations=notes, parallelism=2, completions=4), w)
    assert stop["spec"]["parallelism"] == restored
    assert stop["metadata"].get("annotations") == (None if noted is None else {"sluice/parallelism": None})


def test_a_stop_restores_the_template_and_keeps_the_controllers_labels():
    before = job(pod={"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "own"}]})
    own = {"batch.kubernetes.io/controller-uid": "u"}
    runs = job(
        template_labels=own | {"kueue.x-k8s.io/podset": "main"},
        pod={"nodeSelector": {"zone": "b", "kind": "gpu"}, "tolerations": [{"key": "own"}, SPOT]},
        annotations={"kueue.x-k8s.io/stopping": "true"},
    )
    patch = start_stop.restore(runs, admitted(before))
    assert patch["spec"]["template"] == {
        "metadata": {"labels": {"kueue.x-k8s.io/podset": None}},
        "spec": {"nodeSelector": {"zone": "a", "kind": None}, "tolerations": [{"key": "own"}]},
    }
    assert patch["metadata"]["annotations"] == {"kueue.x-k8s.io/stopping": None}
    assert patch["metadata"]["resourceVersion"] == "7"
