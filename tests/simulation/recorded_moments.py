"""A cluster as the real Kueue left it at one moment of a recording, put together again in our store.

The recording gives every changed value of Jobs and Workloads; queues, flavors and classes are created by its steps. Pod
templates are shortened in the recording, so a Workload takes that of its Job, as Kueue does.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.simulation.world import World
from tests.local.queue import replay

QUIET_SECONDS = 0.3  # without a change, after which nothing more was under way
TIMES = ("requeueAt", "lastTransitionTime", "startTime", "completionTime")
# The counts of a Job that do not depend on pods, which are not restored.
ENDED_JOB_STATUS = ("status.succeeded", "status.failed", "status.completedIndexes", "status.failedIndexes")
Tree = dict[str, Any]


@dataclass
class Moment:
    """What existed at time `t` of a recording: `steps` done, and the merged values of each Job and Workload."""

    t: float
    steps: list[Tree]
    objects: dict[str, Tree] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, Tree]:
        return {name: values for name, values in self.objects.items() if name.startswith(f"{kind}/")}


def quiet_moments(trace: Tree) -> Iterator[Moment]:
    """Yield each moment between two changes that lie QUIET_SECONDS or more apart."""
    history = trace["history"]
    objects: dict[str, Tree] = {}
    for at, change in enumerate(history):
        _take(objects, change)
        later = history[at + 1]["t"] if at + 1 < len(history) else change["t"] + 1.0
        if later - change["t"] >= QUIET_SECONDS and all(map(_can_be_restored, objects.values())):
            steps = [step for step in trace["steps"] if step["n"] <= change["s"]]
            yield Moment(change["t"], steps, copy.deepcopy(objects))


def _can_be_restored(values: Tree) -> bool:
    """Whether an object can be created as it was: not one that is being deleted, nor a Workload without its Job."""
    return "deletionTimestamp" not in values and ("spec.podSets" not in values or "owners" in values)


def _take(objects: dict[str, Tree], change: Tree) -> None:
    name = change.get("obj", "")
    if not name.startswith(("Job/", "Workload/")):
        return
    if change["op"] == "del":
        objects.pop(name, None)
        return
    values = objects.setdefault(name, {})
    values.update(change.get("set") or {})
    for key in change.get("unset") or ():
        values.pop(key, None)


async def restore(world: World, moment: Moment) -> None:
    """Create everything that existed. The queue's controllers are not running."""
    await replay.begin_namespaces(world.client, replay.TEAMS)
    for step in moment.steps:
        if step["do"] in ("create", "patch", "delete") and not step["obj"].startswith(("Job/", "Workload/", "Pod")):
            await replay.do_step(world, step)
    zero = world.clock.now() - timedelta(seconds=moment.t)
    for name, values in moment.of("Job").items():
        await _restore_job(world, moment, name, values, zero)
    for name, values in moment.of("Workload").items():
        await _restore_workload(world, name, values, zero)


async def _restore_job(world: World, moment: Moment, name: str, values: Tree, zero: datetime) -> None:
    created = [step["body"] for step in moment.steps if step["do"] == "create" and step["obj"] == name]
    body = await replay.with_uids(created[-1], world)
    own = {k: v for k, v in values.get("labels", {}).items() if "<uid" not in v}
    body["metadata"] = {
        **body["metadata"],
        "labels": own,
        "annotations": values.get("annotations", {}),
    }
    body["spec"] = {**body["spec"], **{k.removeprefix("spec."): v for k, v in values.items() if k.startswith("spec.")}}
    _set_template(body["spec"]["template"], values)
    namespace = name.split("/")[1]
    await world.client.create(JOBS, namespace, body)
    status = {k.removeprefix("status."): _absolute(v, zero) for k, v in values.items() if k in ENDED_JOB_STATUS}
    status |= {
        k: _time(values[f"status.{k}"], zero) for k in ("startTime", "completionTime") if f"status.{k}" in values
    }
    status["conditions"] = [_condition(k.removeprefix("cond."), values, zero) for k in values if k.startswith("cond.")]
    await world.client.patch(JOBS, namespace, body["metadata"]["name"], {"status": status}, subresource="status")


async def _restore_workload(world: World, name: str, values: Tree, zero: datetime) -> None:
    _, namespace, workload = name.split("/")
    owner = values["owners"][0].split()[0].removeprefix("Job/")
    job = await world.client.get(JOBS, namespace, owner)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": job["metadata"]["uid"]}
    tree = {
        "metadata": {
            "name": workload.replace("-HASH", "-" + f"{abs(hash(owner)):05x}"[:5]),
            "labels": {"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]},
            "annotations": values.get("annotations", {}),
            "finalizers": values.get("finalizers", []),
            "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {k.removeprefix("spec."): v for k, v in values.items() if k.startswith("spec.")},
    }
    tree["spec"]["podSets"] = [
        {**each, "template": _template(job, each["template"])} for each in tree["spec"]["podSets"]
    ]
    stored = await world.client.create(WORKLOADS, namespace, tree)
    status = {k.removeprefix("status."): _absolute(v, zero) for k, v in values.items() if k.startswith("status.")}
    conditions = [k.removeprefix("cond.") for k in values if k.startswith("cond.")]
    status["conditions"] = [_condition(kind, values, zero) for kind in conditions]
    await world.client.patch(WORKLOADS, namespace, stored["metadata"]["name"], {"status": status}, subresource="status")


def _set_template(template: Tree, values: Tree) -> None:
    """What Kueue changed in the template of a Job; the labels of batch/v1 are set by the API server."""
    for key in ("nodeSelector", "tolerations"):
        if f"template.{key}" in values:
            template["spec"][key] = values[f"template.{key}"]
    labels = {k: v for k, v in values.get("template.labels", {}).items() if "/" in k and "<uid" not in v}
    labels.pop("batch.kubernetes.io/job-name", None)
    template["metadata"] = {"labels": labels, "annotations": values.get("template.annotations", {})}


def _template(job: Tree, recorded: Tree) -> Tree:
    """The template of a pod set: that of the Job, with the metadata and the constraints of the recording."""
    spec = {k: v for k, v in job["spec"]["template"]["spec"].items() if k not in ("nodeSelector", "tolerations")}
    spec |= {k: recorded[k] for k in ("nodeSelector", "tolerations") if k in recorded}
    metadata = {k: recorded[k] for k in ("labels", "annotations") if k in recorded}
    return {"metadata": metadata, "spec": spec}


def _condition(kind: str, values: Tree, zero: datetime) -> Tree:
    value = values[f"cond.{kind}"]
    rest = {k: v for k, v in value.items() if k != "at"}
    return {"message": "", **rest, "type": kind, "lastTransitionTime": _time(value["at"], zero)}


def _absolute(value: Any, zero: datetime) -> Any:
    """The value with times of the recording, seconds since its start, as API times."""
    if isinstance(value, dict):
        return {k: _time(v, zero) if k in TIMES else _absolute(v, zero) for k, v in value.items()}
    return [_absolute(each, zero) for each in value] if isinstance(value, list) else value


def _time(seconds: float, zero: datetime) -> str:
    return (zero + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
