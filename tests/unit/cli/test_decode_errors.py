"""Messages of `sluice submit` about a Job that the embedded API server cannot decode."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from queue_manager.cli import manifests
from queue_manager.cli.decode_errors import explain_decoding
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.submit import prepare, submit
from queue_manager.engine.rest_client import RestClient
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: a
  labels:
    app: x
spec:
  parallelism: 1
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: x
          args:
            - "1"
          env:
            - name: A
              value: "1"
          readinessProbe:
            exec:
              command: ["true"]
        - name: second
          image: x
          stdin: true
"""


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


async def refused(path: Path, text: str) -> str:
    """The message of the refusal, without its first line and the file's folder."""
    clock, rng = Clock(), random.Random(1)
    client = RestClient(LocalTransport(ApiServer(Store(clock, rng), KindRegistry.builtin(), clock), "user"))
    file = path / "f.yaml"
    file.write_text(text)
    with pytest.raises(CommandRefused) as error:
        await submit(client, [(manifest, prepare(manifest, None)) for manifest in manifests.read(str(file))])
    assert error.value.code == EXIT_NEVER
    return str(error.value).replace(f"{path}/", "").removeprefix("nothing was submitted:\n  ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("parallelism: 1", 'parallelism: "3"', 'f.yaml:8: spec.parallelism: "3" is a string; must be an integer'),
        ("parallelism: 1", "parallelism: 1:30", 'f.yaml:8: spec.parallelism: "1:30" is a string; must be an integer'),
        ("parallelism: 1", "parallelism: 1.5", "f.yaml:8: spec.parallelism: 1.5 is a number; must be an integer"),
        (
            "parallelism: 1",
            "parallelism: 3000000000",
            "f.yaml:8: spec.parallelism: 3000000000 is a number; must be an integer of 32 bits",
        ),
        ("parallelism: 1", "parallelism: []", "f.yaml:8: spec.parallelism: [] is a list; must be an integer"),
        ("parallelism: 1", "paralelism: 1", "f.yaml:8: spec.paralelism: unknown field"),
        ("app: x", "app: 5", "f.yaml:6: metadata.labels[app]: 5 is a number; must be a string: put it in quotes"),
        (
            "app: x",
            "a.b/c: true",
            "f.yaml:6: metadata.labels[a.b/c]: true is a boolean; must be a string: put it in quotes",
        ),
        ("app: x", "app: {}", "f.yaml:6: metadata.labels[app]: {} is a mapping; must be a string"),
        (
            '- "1"',
            "- maybe\n            - true",
            "f.yaml:17: spec.template.spec.containers[0].args[1]: "
            "true is a boolean; must be a string: put it in quotes",
        ),
        (
            'value: "1"',
            "value: 1",
            "f.yaml:19: spec.template.spec.containers[0].env[0].value: "
            "1 is a number; must be a string: put it in quotes",
        ),
        (
            "stdin: true",
            "stdin: 1",
            "f.yaml:25: spec.template.spec.containers[1].stdin: 1 is a number; must be true or false",
        ),
        (
            "image: x\n          stdin",
            "img: x\n          stdin",
            "f.yaml:24: spec.template.spec.containers[1].img: unknown field",
        ),
        (
            'exec:\n              command: ["true"]',
            "httpGet: {port: 80, scheme: 3}",
            "f.yaml:21: spec.template.spec.containers[0].readinessProbe.httpGet.scheme: "
            "3 is a number; must be a string: put it in quotes",
        ),
        (
            'env:\n            - name: A\n              value: "1"',
            "env: {resources: {}}",
            'f.yaml:17: spec.template.spec.containers[0].env: {"resources": {}} is a mapping; must be a list',
        ),
        (
            "- name: main\n          image: x\n          args:",
            "- name: main\n          image: x\n          resources: big\n          args:",
            'f.yaml:15: spec.template.spec.containers[0].resources: "big" is a string; must be a mapping',
        ),
        (
            "- name: main\n          image: x\n          args:",
            "- name: main\n          image: x\n          resources: {limits: {cpu: 1, memory: 1 GB}}\n          args:",
            'f.yaml:15: spec.template.spec.containers[0].resources.limits[memory]: "1 GB" is a string; '
            "must be a quantity such as 500m or 2Gi",
        ),
        (
            'exec:\n              command: ["true"]',
            "httpGet: {port: true}",
            "f.yaml:21: spec.template.spec.containers[0].readinessProbe.httpGet.port: "
            "true is a boolean; must be an integer or a string",
        ),
        (
            "  name: a",
            "  name: a\n  creationTimestamp: now",
            'f.yaml:5: metadata.creationTimestamp: "now" is a string; must be a time such as 2026-01-31T12:00:00Z',
        ),
    ],
)
async def test_a_mistake_is_reported_with_field_line_and_value(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert JOB.count(old) == 1
    assert await refused(tmp_path, JOB.replace(old, new)) == message


async def test_every_value_of_a_wrong_type_has_a_line_of_its_own(tmp_path: Path) -> None:
    """The server stops at the first one."""
    text = JOB.replace('- "1"', "- 1.5").replace("stdin: true", "stdin: 1")
    assert (await refused(tmp_path, text)).split("\n  ") == [
        "f.yaml:16: spec.template.spec.containers[0].args[0]: 1.5 is a number; must be a string: put it in quotes",
        "f.yaml:25: spec.template.spec.containers[1].stdin: 1 is a number; must be true or false",
    ]


async def test_every_unknown_field_has_a_line_of_its_own(tmp_path: Path) -> None:
    text = JOB.replace("parallelism", "paralelism").replace("labels", "label")
    assert (await refused(tmp_path, text)).split("\n  ") == [
        "f.yaml:5: metadata.label: unknown field",
        "f.yaml:8: spec.paralelism: unknown field",
    ]


def test_a_message_about_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(JOB)
    (manifest,) = manifests.read(str(tmp_path / "f.yaml"))
    assert explain_decoding(manifest, "admission webhook denied the request") == []
    assert explain_decoding(manifest, 'Job in version "v1" cannot be handled as a Job: its types are newer') == []
