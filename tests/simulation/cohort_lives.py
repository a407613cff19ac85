"""Random lives of a cluster with cohorts, preemption and whatever else shares quota, as data.

A `Life` is a configuration, the queues' objects and a list of moves, all literal: a life that broke an invariant is
kept as a file in `kept_lives`, and stays what it is when the generator changes. `cohort_play` plays it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from queue_manager.scheduling.amounts import amount
from tests.local.queue.cluster import API

Tree = dict[str, Any]
TEAMS = ("north", "south")  # namespaces; no name in one of them contains the other's
FLAVORS = ("plain", "spot")
SPOT_TAINT = {"key": "spot", "value": "true", "effect": "NoSchedule"}
PRIORITIES = {"low": 10, "mid": 50, "high": 100}
PARENTS = {"root": "", "left": "root", "right": "root", "leaf": "left"}  # depth 3
BASE, MAXIMUM, LIMIT = 1, 4, 2  # requeue backoff
MAX_MIN_RUNTIME = 6
CROWD = (4, 8)  # Jobs that fill the queues at first
LENGTH, MORE_LENGTH = (8, 20), (20, 50)  # steps after them
OUTCOMES: tuple[Tree, ...] = (
    {"ready_after": 0.2, "ends_after": 2.0},
    {"ready_after": 0.2, "ends_after": None},
    {"ready_after": 0.2, "ends_after": None, "stops_within": 1.5},
    {"ready_after": 0.2, "ends_after": None, "stops_within": 4.0},
    {"ready_after": 1.0, "ends_after": 8.0},
    {"ready_after": None, "ends_after": None},
    {"ready_after": 0.2, "ends_after": 1.0, "exit_code": 1},
    {"no_node": "no node has 1 cpu left"},
)
PAUSES = (0.0, 0.0, 0.02, 0.3, 1.0, 3.1, 7.0)


class Life(msgspec.Struct, frozen=True):
    """A cluster and what happens to it: each move has `do`, its arguments, and `pause`, the seconds after it."""

    config: str
    objects: list[Tree]  # without their apiVersion: v1beta2
    moves: list[Tree]


@dataclass
class Scene:
    """What the moves so far have made: the objects, and the Jobs by team and name."""

    objects: list[Tree]
    protects: bool  # whether a Job may ask for a minimum runtime
    jobs: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)  # whose names can be taken again


def life(seed: int, length: tuple[int, int] = LENGTH) -> Life:
    """The life of this seed. `length`: the least and the greatest number of steps."""
    rng = Random(seed)
    objects = [*_classes(), *_flavors(rng), *_cohorts(rng)]
    queues = list(_cluster_queues(rng))
    objects += [*queues, *_local_queues(queues)]
    config = _config(rng)
    scene = Scene(objects, "maxMinRuntime" in config)
    moves = [_submitting(rng, scene) for _ in range(rng.randint(*CROWD))]
    for _ in range(rng.randint(*length)):
        moves += _step(rng, scene)
    return Life(config, objects, moves)


# --- the cluster -------------------------------------------------------------------------------------------


def _config(rng: Random) -> str:
    lines = ["apiVersion: config.kueue.x-k8s.io/v1beta2", "kind: Configuration"]
    lines.append(f"pendingReasonPeriod: {rng.choice((2, 20))}s")
    if rng.random() < 0.6:
        backoff = f"{{backoffBaseSeconds: {BASE}, backoffMaxSeconds: {MAXIMUM}, backoffLimitCount: {LIMIT}}}"
        blocks = "blockAdmission: true, " if rng.random() < 0.1 else ""
        lines.append(f"waitForPodsReady: {{{blocks}timeout: 3s, requeuingStrategy: {backoff}}}")
    if rng.random() < 0.35:
        strategies = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
        chosen = rng.choice((strategies, strategies[:1], strategies[1:]))
        lines.append(f"fairSharing: {{preemptionStrategies: [{', '.join(chosen)}]}}")
    if rng.random() < 0.25:
        lines.append("admissionFairSharing: {usageHalfLifeTime: 4s, usageSamplingInterval: 2s}")
    if rng.random() < 0.3:
        lines.append(f"backfill: {{headAge: 2s, order: {rng.choice(('Queue', 'ShortestFirst'))}}}")
    if rng.random() < 0.5:
        lines.append(f"preemption: {{maxMinRuntime: {MAX_MIN_RUNTIME}s}}")
    return "\n".join(lines) + "\n"


def _object(kind: str, name: str, spec: Tree, namespace: str = "") -> Tree:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "metadata": meta, "spec": spec}


def _classes() -> Iterator[Tree]:
    for name, value in PRIORITIES.items():
        yield {"kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


def _flavors(rng: Random) -> Iterator[Tree]:
    yield _object("ResourceFlavor", "plain", {"nodeLabels": {"kind": "plain"}})
    taints = {"nodeTaints": [SPOT_TAINT]} if rng.random() < 0.4 else {}
    yield _object("ResourceFlavor", "spot", {"nodeLabels": {"kind": "spot"}, **taints})


def _cpu(rng: Random, most: int) -> str:
    number = rng.choice((0, *range(1, most + 1), *range(1, most + 1)))
    return rng.choice((str(number), str(number), f"{number * 1000}m", f"{number}.5", f"{number}500m"))


def _quota(rng: Random, most: int) -> Tree:
    nominal = _cpu(rng, most) if rng.random() < 0.7 else str(most)
    found: Tree = {"name": "cpu", "nominalQuota": nominal}
    found |= {"borrowingLimit": _cpu(rng, 3)} if rng.random() < 0.3 else {}
    limit = _cpu(rng, most)
    if rng.random() < 0.3 and amount("cpu", limit) <= amount("cpu", found["nominalQuota"]):
        found["lendingLimit"] = limit
    return found


def _groups(rng: Random, flavors: tuple[str, ...], most: int) -> list[Tree]:
    rows = [{"name": name, "resources": [_quota(rng, most)]} for name in flavors]
    return [{"coveredResources": ["cpu"], "flavors": rows}]


def _cohorts(rng: Random) -> Iterator[Tree]:
    for name, parent in PARENTS.items():
        if parent or rng.random() < 0.5:  # a cohort without an object has no quota of its own, and no parent
            spec: Tree = {"parentName": parent} if parent else {}
            if rng.random() < 0.4:
                groups = _groups(rng, FLAVORS[: rng.randint(1, 2)], 3)
                if not parent:
                    _drop_limits(groups)
                spec["resourceGroups"] = groups
            yield _object("Cohort", name, spec | _weight(rng))


def _drop_limits(groups: list[Tree]) -> None:
    """A root neither borrows nor lends."""
    for flavor in groups[0]["flavors"]:
        for quota in flavor["resources"]:
            quota.pop("borrowingLimit", None)
            quota.pop("lendingLimit", None)


def _weight(rng: Random) -> Tree:
    return {"fairSharing": {"weight": rng.choice(("2", "500m", "0"))}} if rng.random() < 0.2 else {}


def _cluster_queues(rng: Random) -> Iterator[Tree]:
    for number in range(rng.choice((2, 2, 3, 4))):
        strategy = rng.choice(("BestEffortFIFO", "StrictFIFO"))
        spec: Tree = {
            "namespaceSelector": {"matchLabels": {"team": TEAMS[0]}} if rng.random() < 0.04 else {},
            "queueingStrategy": strategy,
            "preemption": _preemption(rng),
            "flavorFungibility": {
                "whenCanBorrow": rng.choice(("MayStopSearch", "TryNextFlavor")),
                "whenCanPreempt": rng.choice(("MayStopSearch", "TryNextFlavor")),
            },
            "resourceGroups": _groups(rng, rng.choice((FLAVORS[:1], FLAVORS, FLAVORS[::-1])), 4),
        }
        cohort = rng.choice((*PARENTS, "left", "leaf", *PARENTS, ""))
        if cohort:
            spec["cohortName"] = cohort
        else:
            _drop_limits(spec["resourceGroups"])
        if strategy == "BestEffortFIFO" and rng.random() < 0.4:
            spec["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        yield _object("ClusterQueue", f"cq{number}", spec | _weight(rng))


def _preemption(rng: Random) -> Tree:
    found: Tree = {
        "withinClusterQueue": rng.choice(("Never", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority")),
        "reclaimWithinCohort": rng.choice(("Never", "LowerPriority", "Any", "Any")),
    }
    if rng.random() < 0.35 and found["reclaimWithinCohort"] != "Never":
        most = {"maxPriorityThreshold": rng.choice((10, 50))} if rng.random() < 0.5 else {}
        found["borrowWithinCohort"] = {"policy": "LowerPriority", **most}
    return found


def _local_queues(queues: list[Tree]) -> Iterator[Tree]:
    for team in TEAMS:
        for queue in queues:
            name = queue["metadata"]["name"]
            yield _object("LocalQueue", f"{team}-{name}", {"clusterQueue": name}, team)


# --- moves -------------------------------------------------------------------------------------------------


def _move(rng: Random, scene: Scene) -> Tree:
    make = rng.choices([make for make, _ in MOVES], [weight for _, weight in MOVES])[0]
    return {**make(rng, scene), "pause": rng.choice(PAUSES)}


def _submitting(rng: Random, scene: Scene) -> Tree:
    """A small Job of low priority that runs until it is stopped: the later ones are larger, and preempt it."""
    found = _submit(rng, scene)
    found["job"]["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "low"
    _request(found, "1")
    return {**found, "outcome": rng.choice(OUTCOMES[2:4]), "pause": 0.02}


def _request(submission: Tree, cpu: str) -> None:
    submission["job"]["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}


def _of_kind(objects: list[Tree], *kinds: str) -> list[Tree]:
    return [each for each in objects if each["kind"] in kinds]


def _job_name(rng: Random, scene: Scene) -> tuple[str, str]:
    return rng.choice(scene.jobs)


def _new_job_name(rng: Random, scene: Scene) -> tuple[str, str]:
    """Of a Job that was deleted, or a new one."""
    if scene.deleted and rng.random() < 0.3:
        return scene.deleted.pop()
    team = rng.choice(TEAMS)
    scene.jobs.append((team, f"{team}-{len(scene.jobs)}"))
    return scene.jobs[-1]


def _submit(rng: Random, scene: Scene) -> Tree:
    team, name = _new_job_name(rng, scene)
    queue = rng.choice(_of_kind(scene.objects, "ClusterQueue"))["metadata"]["name"]
    labels = {"kueue.x-k8s.io/queue-name": f"{team}-{queue}"}
    if rng.random() < 0.7:
        labels["kueue.x-k8s.io/priority-class"] = rng.choice(list(PRIORITIES))
    if rng.random() < 0.4:
        labels["kueue.x-k8s.io/max-exec-time-seconds"] = str(rng.choice((3, 10, 40)))
    protects = scene.protects and rng.random() < 0.25
    notes = {"sluice/min-runtime": f"{rng.randint(1, MAX_MIN_RUNTIME)}s"} if protects else {}
    if rng.random() < 0.05:
        notes["kueue.x-k8s.io/admission-gated-by"] = "example.com/gate"
    cpu = rng.choice(("1", "1", "1500m", "2", "2", "3", "3", "4", "0.5", "9"))
    pod: Tree = {"nodeSelector": {"kind": rng.choice(FLAVORS)}} if rng.random() < 0.1 else {}
    pod |= {"tolerations": [{"key": "spot", "operator": "Exists"}]} if rng.random() < 0.5 else {}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}
    pods = rng.choice((1, 1, 1, 2))
    spec = {"backoffLimit": 0, "parallelism": pods, "completions": rng.choice((pods, 2)), "template": template}
    meta = {"name": name, "namespace": team, "labels": labels, "annotations": notes}
    return {"do": "submit", "job": {"metadata": meta, "spec": spec}, "outcome": _outcome(rng)}


def _outcome(rng: Random) -> Tree:
    """Most run until they are stopped."""
    return rng.choice(OUTCOMES[1:3]) if rng.random() < 0.6 else rng.choice(OUTCOMES)


def _change_outcome(rng: Random, scene: Scene) -> Tree:
    return {"do": "change_outcome", "name": _job_name(rng, scene)[1], "outcome": rng.choice(OUTCOMES)}


def _delete_job(rng: Random, scene: Scene) -> Tree:
    job = _job_name(rng, scene)
    scene.deleted.append(job)
    return {"do": "delete_job", "job": job, "how": rng.choice(("Background", "Foreground", "Orphan"))}


def _set_active(rng: Random, scene: Scene) -> Tree:
    return {"do": "patch_workload", "job": _job_name(rng, scene), "patch": {"spec": {"active": rng.random() < 0.4}}}


def _gate(rng: Random, scene: Scene) -> Tree:
    gates = {"kueue.x-k8s.io/admission-gated-by": rng.choice((None, "example.com/gate"))}
    return {"do": "patch_job", "job": _job_name(rng, scene), "patch": {"metadata": {"annotations": gates}}}


def _change_priority(rng: Random, scene: Scene) -> Tree:
    """Of a Job, which may run, or of all Jobs of a class."""
    if rng.random() < 0.3:
        value = rng.choice((0, *PRIORITIES.values()))
        name = rng.choice(list(PRIORITIES))
        return {
            "do": "patch",
            "kind": "WorkloadPriorityClass",
            "name": name,
            "namespace": "",
            "patch": {"value": value},
        }
    labels = {"kueue.x-k8s.io/priority-class": rng.choice(list(PRIORITIES))}
    return {"do": "patch_job", "job": _job_name(rng, scene), "patch": {"metadata": {"labels": labels}}}


def _stop(rng: Random, scene: Scene) -> Tree:
    meta = rng.choice(_of_kind(scene.objects, "ClusterQueue", "LocalQueue", "LocalQueue"))
    policy = rng.choice(("Hold", "HoldAndDrain", "None", "None"))
    return _patch(meta, {"stopPolicy": policy})


def _edit_quota(rng: Random, scene: Scene) -> Tree:
    """Other numbers, in the same flavors."""
    chosen = rng.choice([each for each in _of_kind(scene.objects, "ClusterQueue", "Cohort") if _flavors_of(each)])
    groups = _groups(rng, _flavors_of(chosen), 4)
    if chosen["kind"] == "ClusterQueue" and "cohortName" not in chosen["spec"]:
        _drop_limits(groups)
    if chosen["kind"] == "Cohort" and "parentName" not in chosen["spec"]:
        _drop_limits(groups)
    return _patch(chosen, {"resourceGroups": groups})


def _flavors_of(tree: Tree) -> tuple[str, ...]:
    return tuple(flavor["name"] for group in tree["spec"].get("resourceGroups", ()) for flavor in group["flavors"])


def _place(tree: Tree) -> Tree:
    return {"kind": tree["kind"], "name": tree["metadata"]["name"], "namespace": tree["metadata"].get("namespace", "")}


def _move_queue(rng: Random, scene: Scene) -> Tree:
    """To another cohort; one that has limits stays in some cohort."""
    chosen = rng.choice(_of_kind(scene.objects, "ClusterQueue"))
    return _patch(chosen, {"cohortName": rng.choice(list(PARENTS))})


def _another_writer(rng: Random, scene: Scene) -> Tree:
    """A finalizer, an annotation or a condition of another program, on a Workload or a queue."""
    number = rng.randrange(3)
    if rng.random() < 0.5:
        return {"do": "write_on_workload", "job": _job_name(rng, scene), "number": number}
    chosen = rng.choice(_of_kind(scene.objects, *WRITTEN_BY_OTHERS))
    return {"do": "write_on_object", **_place(chosen), "number": number}


def _delete_object(rng: Random, scene: Scene) -> Tree:
    return {"do": "delete", **_place(rng.choice(_of_kind(scene.objects, *DELETED)))}


def _create_object(rng: Random, scene: Scene) -> Tree:
    """As it was at first; refused unless it was deleted."""
    return {"do": "create", "tree": rng.choice(_of_kind(scene.objects, *DELETED))}


def _set_parent(rng: Random, scene: Scene) -> Tree:
    """Another parent of a Cohort, none, or the first one."""
    chosen = rng.choice(_of_kind(scene.objects, "Cohort"))
    parent = rng.choice((None, *PARENTS)) if rng.random() < 0.5 else _first_parent(chosen)
    spec: Tree = {"parentName": parent}
    if parent is None and "resourceGroups" in chosen["spec"]:
        spec["resourceGroups"] = _groups(rng, _flavors_of(chosen), 3)
        _drop_limits(spec["resourceGroups"])
    return _patch(chosen, spec)


def _first_parent(cohort: Tree) -> str | None:
    return cohort["spec"].get("parentName")


def _patch(tree: Tree, spec: Tree) -> Tree:
    return {"do": "patch", **_place(tree), "patch": {"spec": spec}}


DELETED = ("ClusterQueue", "ResourceFlavor", "Cohort")
WRITTEN_BY_OTHERS = ("ClusterQueue", "LocalQueue", "ResourceFlavor")


def _delete_workload(rng: Random, scene: Scene) -> Tree:
    return {"do": "delete_workload", "job": _job_name(rng, scene)}


def _kill(rng: Random, scene: Scene) -> Tree:
    """Ends the queue's controllers before, at or after one of their next writes, or at once."""
    return {"do": "kill", "writes": rng.choice((0, 0, 1, 2, 3, 5)), "applied": rng.random() < 0.5}


def _start(rng: Random, scene: Scene) -> Tree:
    return {"do": "start"}


def _wait(rng: Random, scene: Scene) -> Tree:
    return {"do": "wait"}


MOVES = (
    (_submit, 60),
    (_wait, 10),
    (_start, 10),
    (_change_outcome, 6),
    (_edit_quota, 6),
    (_change_priority, 6),
    (_stop, 5),
    (_another_writer, 5),
    (_kill, 3),
    (_delete_job, 3),
    (_set_active, 5),
    (_gate, 2),
    (_move_queue, 2),
    (_delete_workload, 1),
    (_delete_object, 3),
    (_create_object, 5),
    (_set_parent, 3),
)


# --- several moves ---


def _step(rng: Random, scene: Scene) -> list[Tree]:
    make = rng.choices([make for make, _ in STEPS], [weight for _, weight in STEPS])[0]
    return make(rng, scene)


def _one_move(rng: Random, scene: Scene) -> list[Tree]:
    return [_move(rng, scene)]


def _contention(rng: Random, scene: Scene) -> list[Tree]:
    """A large Job of high priority, and small ones that could take what its victims release while these stop."""
    large = _submit(rng, scene)
    large["job"]["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = rng.choice(("mid", "high"))
    _request(large, rng.choice(("2", "3", "4")))
    small = [_submitting(rng, scene) for _ in range(rng.randint(1, 3))]
    for each in small:
        each["pause"] = rng.choice((0.02, 0.3, 1.0))
    return [{**large, "pause": rng.choice((0.3, 0.6, 1.0))}, *small]


def _replacement(rng: Random, scene: Scene) -> list[Tree]:
    """Of a ClusterQueue that is perhaps in use, and perhaps of a flavor."""
    replaced = [rng.choice(_of_kind(scene.objects, "ClusterQueue"))]
    replaced += rng.sample(_of_kind(scene.objects, "ResourceFlavor"), rng.randint(0, 1))
    deletions = [{"do": "delete", **_place(each)} for each in replaced]
    creations = [{"do": "create", "tree": each} for each in rng.sample(replaced, len(replaced))]
    moves = [*deletions, _submit(rng, scene), *creations]
    return [{**each, "pause": rng.choice(PAUSES)} for each in moves]


def _cycle(rng: Random, scene: Scene) -> list[Tree]:
    """`left` gets a parent that is below it, and its first one again after a Job was submitted."""
    left = next(each for each in _of_kind(scene.objects, "Cohort") if each["metadata"]["name"] == "left")
    closed, opened = (_patch(left, {"parentName": parent}) for parent in ("leaf", _first_parent(left)))
    return [{**each, "pause": rng.choice((0.3, 1.0, 3.1))} for each in (closed, _submit(rng, scene), opened)]


STEPS = ((_one_move, 66), (_contention, 26), (_replacement, 5), (_cycle, 3))


def with_api(tree: Tree) -> Tree:
    """The object as it is sent."""
    return {**API, **tree}
