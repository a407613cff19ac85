"""What commands read: settings, files that name queues or hold objects, credentials, and answers of API servers."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import msgspec

from job_controller import model
from queue_manager.adoption.queue_mapping import QueueRule, rule_for, rules_from
from queue_manager.api import types
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.cli import adoption_file, adoption_steps, import_jobs, install
from queue_manager.cli.adoption_rights import of_restoration
from queue_manager.cli.cluster_object_files import read_text
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.engine import exec_plugin
from queue_manager.engine.json_codec import UNDECODABLE
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request, Response
from queue_manager.installation.helm_values import SettingsError, settings_from
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import values_of
from tests.fuzz.target import Target, require_stable

API = "client.authentication.k8s.io/v1"
EMPTY = b'{"metadata":{},"items":[]}'


def exec_credentials() -> Target:
    """The body is what a credential program prints."""

    def decode(head: str, body: bytes) -> None:
        status = exec_plugin._read("program", API, body)
        assert status.token

    return Target(decode, (exec_plugin.CredentialsError,))


def import_rules() -> Target:
    file = _scratch("rules.yaml")
    pod = {"metadata": {"labels": {"team": "a"}}, "spec": {"priorityClassName": "high"}}
    job = model.Job(metadata=model.ObjectMeta(name="j", labels={"x": "y"}), spec=model.JobSpec(template=pod))

    def decode(head: str, body: bytes) -> None:
        file.write_bytes(body)
        rules = import_jobs._from_file(str(file))
        found = rule_for(job, rules)
        assert found is None or bool(found.to_local_queue) != found.skip
        require_stable("the mapping", rules, rules_from(msgspec.json.decode(msgspec.json.encode(rules))))
        assert all(isinstance(rule, QueueRule) for rule in rules)

    words = (
        "- match: {labels: {team: a}}\n  toLocalQueue: q\n",
        "skip: true",
        "priorityClassName: ",
        "&a ",
        "*a",
        "? ",
    )
    return Target(decode, (CommandRefused,), tokens=words)


def cluster_object_files() -> Target:
    loop, config = asyncio.new_event_loop(), KueueConfig()

    def decode(head: str, body: bytes) -> None:
        loop.run_until_complete(read_text(body.decode(), "queues.yaml", config))

    words = ("---\n", "kind: ClusterQueue\n", "spec:\n  ", "resourceGroups:\n", "nominalQuota: 1\n", "- ", "&a ", "*a")
    return Target(decode, (CommandRefused, UnicodeDecodeError), tokens=words)


def api_responses() -> Target:
    """The body is an answer; the head says of which request. What it raises, callers retry or report."""
    loop = asyncio.new_event_loop()

    def decode(head: str, body: bytes) -> None:
        client = RestClient(_Answers(body, status=409 if head == "error" else 200))  # type: ignore[arg-type]
        match head:
            case "list":
                loop.run_until_complete(client.list(JOBS, type=model.Job))
            case "patch":
                loop.run_until_complete(client.patch(WORKLOADS, "a", "b", {}, type=types.Workload))
            case _:
                loop.run_until_complete(client.get(JOBS, "a", "b", type=model.Job))

    return Target(decode, (ApiError, *UNDECODABLE), ("list", "get", "patch", "error"))


class _Answers:
    """A transport whose server answers the first request with this body, and further ones with an empty list."""

    def __init__(self, body: bytes, status: int) -> None:
        self._bodies, self._status = [EMPTY, body], status

    async def request(self, request: Request) -> Response:
        return Response(self._status, {}, self._bodies.pop() if len(self._bodies) > 1 else self._bodies[0])


def settings() -> Target:
    """A file of `--values`, or a `--set` per line; what is accepted can be installed."""
    file = _scratch("values.yaml")

    def decode(head: str, body: bytes) -> None:
        if head == "set":
            found = settings_from([], body.decode().split("\n"))
        else:
            file.write_bytes(body)
            found = settings_from([install._read(str(file))], [])
        require_stable("the settings", found, settings_from([values_of(found)], []))
        assert all(obj["metadata"]["name"] for obj in objects(found, "x"))

    words = (
        "components=Apart",
        "webhook:\n  ",
        "namespaces={a,b}",
        "image.tag=",
        "resources:\n  limits: ",
        "\n",
        "=",
        ": ",
    )
    return Target(decode, (CommandRefused, SettingsError, UnicodeDecodeError), ("set", "values"), words)


def undo_files() -> Target:
    """A file that `sluice adopt` saved; what is accepted names what is restored, and in which order."""
    file = _scratch("undo.yaml")

    def decode(head: str, body: bytes) -> None:
        file.write_bytes(body)
        saved = adoption_file.load(str(file))
        assert len(adoption_steps.in_order(saved)) == len(saved)
        assert all(right.verb for right in of_restoration(saved))

    words = (
        "---\n",
        "kind: Deployment\n",
        "metadata:\n  name: a\n  namespace: b\n",
        "kind: ConfigMap\n",
        "- ",
        "&a ",
        "*a",
    )
    return Target(decode, (CommandRefused,), tokens=words)


def _scratch(name: str) -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-commands-")) / name


TARGETS = {
    "exec-credential": exec_credentials,
    "import-rules": import_rules,
    "cluster-objects": cluster_object_files,
    "api-responses": api_responses,
    "settings": settings,
    "undo-file": undo_files,
}
