"""The client on the embedded API server and on a real one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queue_manager.client import Client, JobDeleted, JobFailed, NeverStarts
from tests.local.client.test_client import QUEUE, SECONDS, manifest
from tests.local.cluster.conftest import Up, cluster, kinds, real_server
from tests.local.cluster.fleet import Fleet

__all__ = ["cluster", "kinds", "real_server"]  # fixtures of the cluster's tests


def test_a_job_is_followed_to_its_end_on_each_server(cluster: Callable[..., Up | Fleet]) -> None:
    client = Client.from_kubeconfig(cluster().kubeconfig)
    done = client.wait(client.submit(manifest("true", name="good"), queue=QUEUE), timeout=SECONDS)
    assert done.status is not None
    assert done.status.succeeded == 1
    with pytest.raises(JobFailed, match="exit 3"):
        client.wait(client.submit(manifest("sh", "-c", "exit 3", name="bad"), queue=QUEUE), timeout=SECONDS)
    big = client.submit(manifest("true", name="big", cpu="1k"), queue=QUEUE, check=False)
    with pytest.raises(NeverStarts, match="asks 1k cpu"):
        client.wait(big, timeout=SECONDS)
    client.cancel(big)
    with pytest.raises(JobDeleted):
        client.wait(big, timeout=SECONDS)
