"""Pod logs as far as no node is needed: which container is meant, and which options are valid.

The answers of a node are tested in tests/local/agent/test_logs.py, for the embedded server only: a real API server
fetches logs from a kubelet's server, which our node agent does not have.
"""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import PODS
from tests.contract.bodies import pod
from tests.contract.session import Answer, Session

TWO = {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}
WITH_INIT = {"initContainers": [{"name": "first", "image": "i:1"}], **TWO}


async def log(s: Session, name: str = "p", **options: Any) -> Answer:
    return await s.ask("GET", s.path(PODS, name, "log"), **options)


async def test_a_pod_without_node_has_an_empty_log(s: Session) -> None:
    await s.create(pod(), silent=True)
    await log(s)
    await log(s, container="main")
    await log(s, follow=True)
    await log(s, previous=True)


async def test_the_log_of_a_missing_pod_is_404(s: Session) -> None:
    await log(s, "none")


@pytest.mark.parametrize("spec", [TWO, WITH_INIT], ids=["two", "init"])
async def test_the_log_of_one_of_several_containers_needs_its_name(s: Session, spec: Any) -> None:
    await s.create(pod("p", spec), silent=True)
    await log(s)
    for name in ("a", "first", "none", ""):
        await log(s, container=name)


async def test_the_default_container_annotation_has_no_effect_on_the_server(s: Session) -> None:
    await s.create(pod("p", TWO, annotations={"kubectl.kubernetes.io/default-container": "b"}), silent=True)
    await log(s)


@pytest.mark.parametrize(
    "options",
    [
        {"tailLines": -1},
        {"tailLines": 0},
        {"limitBytes": 0},
        {"sinceSeconds": 0},
        {"sinceSeconds": 5, "sinceTime": "2026-01-01T00:00:00Z"},
        {"sinceTime": "2026-01-01T00:00:00Z", "timestamps": True},
        {"tailLines": "many"},
        {"follow": "maybe"},
        {"sinceTime": "yesterday"},
        {"sinceTime": "2026-01-01"},
        {"stream": "Stdout"},
        {"stream": "Stdwhat"},
    ],
    ids=str,
)
async def test_options_are_validated(s: Session, options: Any) -> None:
    await s.create(pod(), silent=True)
    await log(s, **options)


async def test_a_log_is_read_only(s: Session) -> None:
    await s.create(pod(), silent=True)
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        await s.ask(method, s.path(PODS, "p", "log"), {})
