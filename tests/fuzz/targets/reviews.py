"""What API servers ask and answer: reviews of webhooks, answers about access, Secrets with certificates."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
from multidict import CIMultiDict

from queue_manager.api import keys
from queue_manager.api.conversion import conversion_review
from queue_manager.api.crd_generation import crd
from queue_manager.api.models import KINDS
from queue_manager.api.webhook_table import WEBHOOKS
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.json_codec import UNDECODABLE
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Request, Response
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.local.kinds.custom_kinds import custom_kinds
from queue_manager.local.kinds.job_kind import JOB
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.status_errors import StatusError, bad_request
from queue_manager.local.storage.store import Store
from queue_manager.operator.delegated_auth import DelegatedAuth, FrontProxy, judge
from queue_manager.operator.tls import ServingCertificate
from queue_manager.operator.webhooks import certificate_secret
from queue_manager.operator.webhooks.admission import ClusterAdmission
from queue_manager.operator.webhooks.certificate_rotation import next_state
from queue_manager.operator.webhooks.cluster_contexts import ClusterContexts
from queue_manager.operator.webhooks.https_server import NotAReview
from queue_manager.operator.webhooks.kopf_admission import KopfAdmission
from tests.fuzz.target import Target, require_stable
from tests.kopf_reviews import review_function

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB_DEFAULTS = "/mutate-batch-v1-job"


def admission_reviews() -> Target:
    """A review under the path of a webhook, as the HTTPS server passes it to kopf."""
    loop = asyncio.new_event_loop()
    clock = SystemClock()
    transport = LocalTransport(ApiServer(Store(clock, Random(1)), KindRegistry.builtin(), clock), "manager")
    runtime = Runtime(transport, clock, Random(1), silence=None)
    webhooks = KopfAdmission(ClusterAdmission(ClusterContexts(runtime, WorkloadSettings())))

    async def start() -> None:
        await install_crds(RestClient(transport))
        review, settings = review_function(webhooks.attach)
        await anext(settings.admission.server(review))  # the caches stay empty: no reflector is started

    loop.run_until_complete(start())
    kinds = _kinds()
    paths = tuple(webhook.path for webhook in WEBHOOKS)

    def decode(head: str, body: bytes) -> None:
        review, path = msgspec.json.decode(body, type=dict[str, Any]), head if head in paths else JOB_DEFAULTS
        if path == JOB_DEFAULTS:
            _require_job(review)
        elif path.startswith("/validate"):
            _require_schema(kinds, review)
        answer = loop.run_until_complete(webhooks.routes[path](review))
        assert isinstance(answer["response"]["allowed"], bool)

    return Target(decode, (NotAReview, StatusError, *UNDECODABLE), paths)


def _kinds() -> dict[str, Kind]:
    """The kinds about which webhooks are asked, with the schemas of the CRDs."""
    custom = [kind for model in KINDS for kind in custom_kinds(crd(model)) if kind.resource.version == "v1beta2"]
    return {kind.resource.kind: kind for kind in (JOB, *custom)}


def _require_job(review: Any) -> None:
    """An API server decodes a built-in kind before it asks any webhook. Raises StatusError."""
    request = review.get("request")
    for field in ("object", "oldObject"):
        obj = request.get(field) if isinstance(request, dict) else None
        if isinstance(obj, dict):
            JOB.schema.check(copy.deepcopy(obj))


def _require_schema(kinds: Mapping[str, Kind], review: Any) -> None:
    """An API server checks an object after the mutating webhooks, and asks the validating ones about a valid object.

    The review gets the object as the server prepares it: without null where a value may not be null. Raises
    StatusError.
    """
    request = review.get("request")
    for field in ("object", "oldObject"):
        obj = request.get(field) if isinstance(request, dict) else None
        if isinstance(obj, dict):
            kind = kinds.get(obj["kind"]) if isinstance(obj.get("kind"), str) else None
            if kind is None or not isinstance(obj.get("metadata"), dict):
                raise bad_request("an unknown kind")
            body = copy.deepcopy(obj)
            kind.schema.check(body)
            kind.prepare_create(body)
            body["metadata"]["namespace"] = "default" if kind.resource.namespaced else ""
            if errors := kind.validate_create(body):
                raise bad_request(str(errors[0]))
            request[field] = body


def conversion_reviews() -> Target:
    """A conversion fails or succeeds as a whole, and the way there and back changes nothing."""

    def decode(head: str, body: bytes) -> None:
        review = json.loads(body)
        response = conversion_review.answer(copy.deepcopy(review))["response"]
        if response["result"]["status"] != "Success":
            return
        before, wanted = review["request"]["objects"], review["request"].get("desiredAPIVersion")
        if wanted == keys.API_VERSION and all(obj["apiVersion"] == keys.V1BETA1 for obj in before):
            there = response["convertedObjects"]
            back = _converted(there, keys.V1BETA1)
            require_stable("the object", there, _converted(back, keys.API_VERSION))

    return Target(decode, (ValueError, RecursionError))


def _converted(objects: list[Any], version: str) -> Any:
    request = {"uid": "u", "desiredAPIVersion": version, "objects": copy.deepcopy(objects)}
    response = conversion_review.answer({"request": request})["response"]
    assert response["result"]["status"] == "Success", response
    return response["convertedObjects"]


class _Answers:
    """A transport whose server answers every request with the same body."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def request(self, request: Request) -> Response:
        return Response(201, {}, self._body)


def access_reviews() -> Target:
    """The body is what an API server answers to a TokenReview and a SubjectAccessReview, or has in the ConfigMap."""
    headers = CIMultiDict({"Authorization": "Bearer t", "X-Remote-User": "u", "X-Remote-Extra-a": "b"})
    peer = {"subject": ((("commonName", "front"),),)}
    loop = asyncio.new_event_loop()

    def decode(head: str, body: bytes) -> None:
        if head == "front-proxy":
            proxy = FrontProxy.read(msgspec.json.decode(body, type=dict[str, str]))
            if proxy is not None:
                proxy.identity(headers, peer)
            return
        auth = DelegatedAuth(RestClient(_Answers(body)), None)  # type: ignore[arg-type]
        verdict = loop.run_until_complete(judge(auth, headers, None, {"nonResourceAttributes": {"path": "/metrics"}}))
        assert verdict.status in (200, 401, 403, 503)

    return Target(decode, (ValueError, *UNDECODABLE), ("review", "front-proxy"))


def certificates() -> Target:
    """The body is a Secret; a damaged one counts as absent, and is replaced."""

    def decode(head: str, body: bytes) -> None:
        secret = msgspec.json.decode(body, type=dict[str, Any])
        state = certificate_secret.read(secret)
        after = next_state(state, ("localhost",), NOW, trusted=True)
        require_stable("the state", after, certificate_secret.read({"data": certificate_secret.data(after)}))
        if after.serving is not None and after.serving == state.serving:
            with contextlib.suppress(ssl.SSLError):
                ServingCertificate().present(after.serving.pem)

    return Target(decode, UNDECODABLE)


TARGETS = {
    "admission-review": admission_reviews,
    "conversion-review": conversion_reviews,
    "access-review": access_reviews,
    "certificates": certificates,
}
