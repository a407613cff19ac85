"""A created Job whose fields work against each other is answered with a Warning and the remedy."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from queue_manager.api.api_resources import JOBS
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.transport_protocol import JSON
from queue_manager.local.job_warnings_plugin import JobWarnings
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer, ServerRequest
from queue_manager.local.storage.store import Store

PER_INDEX = {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1}


@pytest.mark.parametrize(
    ("spec", "restart_policy", "warned"),
    [(PER_INDEX, "OnFailure", True), (PER_INDEX, "Never", False), ({"completions": 2}, "OnFailure", False)],
)
async def test_backoff_limit_per_index_with_restarts_in_place_is_a_warning(
    spec: Any, restart_policy: str, warned: bool
):
    template = {"spec": {"restartPolicy": restart_policy, "containers": [{"name": "main", "image": "x"}]}}
    body = {"metadata": {"name": "a"}, "spec": {**spec, "template": template}}
    clock = SystemClock()
    server = ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock, [JobWarnings()])
    request = ServerRequest("POST", JOBS.path("default"), {}, {"content-type": JSON}, orjson.dumps(body), "user")
    answer = await server.handle(request)
    assert answer.status == 201
    warning = answer.headers.get("Warning", "")
    assert warning.startswith('299 - "spec.backoffLimitPerIndex: has no effect with restartPolicy OnFailure') == warned
    assert bool(warning) == warned
