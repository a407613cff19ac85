"""Sends the recorded requests about the queue's kinds and Jobs to a server, and compares its answers with the recorded
ones. The server has no controllers, and applies our rules: as plugins, or as webhooks.
"""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

from queue_manager.api.api_resources import JOBS, NAMESPACES, by_kind
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import JSON_PATCH, MERGE_PATCH, ApiError
from tests.local.queue.replay import API_VERSIONS, GOLDEN
from tests.unit.api.golden import BETTER_WORDING, EXISTING, NOT_COVERED, STRICTER

RECORDS = [json.loads(line) for line in (GOLDEN / "validation.jsonl").read_text().splitlines()]
QUEUE = {"kueue.x-k8s.io/queue-name": "q"}
CLASS = {"kueue.x-k8s.io/priority-class": "low"}

BY_FIELD = {"ClusterQueue: nominalQuota not a quantity": "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"}
"""Kueue's webhook cannot read the object and answers 400 without saying where; ours is refused at its field."""

FULL_PATH = {"Workload: requeueState.count negative"}
"""For a status the real server reports two different relative paths; ours reports the full path."""


async def replay(client: RestClient) -> dict[str, dict[str, Any]]:
    """The answers to all recorded requests, in order, by case."""
    await _prepare(client)
    covered = [record for record in RECORDS if record["case"] not in NOT_COVERED]
    return {record["case"]: await _answer(client, record) for record in covered}


async def _prepare(client: RestClient) -> None:
    with contextlib.suppress(ApiError):  # the real server has it from another test
        await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    for obj, tree in EXISTING.items():
        kind, *rest = obj.split("/")
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **copy.deepcopy(tree)}
        await client.create(by_kind(body["apiVersion"], kind), rest[0] if len(rest) == 2 else "", body)
    notes = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    await _job(client, "run", {**QUEUE, **CLASS})
    await _job(client, "nopri", QUEUE)
    await _job(client, "part", QUEUE, notes)
    await _job(client, "pend", {**QUEUE, **CLASS}, suspend=True)


async def _job(
    client: RestClient, name: str, labels: dict[str, str], notes: dict[str, str] | None = None, *, suspend: bool = False
) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    spec = {"parallelism": 4 if notes else 1, "completions": 4 if notes else 1, "template": {"spec": pod}}
    meta = {"name": name, "namespace": "ns", "labels": labels, "annotations": notes or {}}
    await client.create(JOBS, "ns", {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    if not suspend:
        await client.patch(JOBS, "ns", name, {"spec": {"suspend": False}})


async def _answer(client: RestClient, record: dict[str, Any]) -> dict[str, Any]:
    kind, *rest = record["obj"].split("/")
    body = record["body"]
    version = body.get("apiVersion", "") if isinstance(body, dict) and record["op"] == "create" else ""
    resource = by_kind(version or API_VERSIONS.get(kind, "kueue.x-k8s.io/v1beta2"), kind)
    namespace, name = rest if len(rest) == 2 else ("", rest[0])
    try:
        if record["op"] == "create":
            await client.create(resource, namespace, body)
            await client.delete(resource, namespace, name)
        else:
            how = JSON_PATCH if isinstance(body, list) else MERGE_PATCH
            sub = "status" if record["op"] == "patch status" else ""
            await client.patch(resource, namespace, name, body, subresource=sub, content_type=how)
    except ApiError as error:
        causes = (error.body.get("details") or {}).get("causes") or []
        return {"code": error.status, "reason": error.reason, "message": error.message, "causes": causes}
    return {"accepted": True}


def check(record: dict[str, Any], answers: dict[str, dict[str, Any]]) -> None:
    """The answer to this record is the recorded one, or differs as intended."""
    case = record["case"]
    if case in NOT_COVERED:
        assert case not in answers
        return
    answer = answers[case]
    if case in STRICTER:
        assert STRICTER[case] in answer["message"]
    elif record.get("accepted"):
        assert answer == {"accepted": True}
    elif case in BY_FIELD:
        assert (answer["code"], answer["reason"]) == (422, "Invalid")
        assert BY_FIELD[case] in [cause["field"] for cause in answer["causes"]]
    elif case in BETTER_WORDING or case in FULL_PATH:
        assert (answer["code"], answer["reason"]) == (record["code"], record["reason"])
    else:
        expected = {key: record.get(key, "") for key in ("code", "reason", "message")}
        assert {key: answer.get(key) for key in expected} == expected
        assert answer["causes"] == record.get("causes", [])
