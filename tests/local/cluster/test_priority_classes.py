"""What `sluice up` refuses in a WorkloadPriorityClass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from queue_manager.api.api_resources import WORKLOAD_PRIORITY_CLASSES
from queue_manager.api.keys import MIN_RUNTIME
from queue_manager.engine.transport_protocol import ApiError
from tests.local.cluster.conftest import Up

CONFIG = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
preemption: {maxMinRuntime: 1h}
"""
REFUSED = (
    'admission webhook "vworkloadpriorityclass.kb.io" denied the request: '
    f'metadata.annotations[{MIN_RUNTIME}]: Invalid value: "2h": must be at most 1h0m0s'
)


async def test_a_class_may_not_protect_its_jobs_for_longer_than_configured(
    start: Callable[..., Up], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    async with start("--config", str(config)).client() as client:
        meta = {"name": "steady", "annotations": {MIN_RUNTIME: "1h"}}
        await client.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": meta, "value": 1})
        longer = {"metadata": {"annotations": {MIN_RUNTIME: "2h"}}}
        with pytest.raises(ApiError) as refusal:
            await client.patch(WORKLOAD_PRIORITY_CLASSES, "", "steady", longer)
        assert (refusal.value.status, refusal.value.message) == (403, REFUSED)
        await client.patch(WORKLOAD_PRIORITY_CLASSES, "", "steady", {"value": 2})
