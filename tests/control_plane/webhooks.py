"""The admission rules of the queue as webhooks of a real API server, which then behaves as the embedded one.

The API server calls https://127.0.0.1:PORT; `serve` answers there with the given rules. `registered` installs the
configuration that makes the API server call.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from queue_manager.api.api_resources import JOBS, WORKLOADS, Resource, by_kind
from queue_manager.api.conversion import conversion_review
from queue_manager.api.queue_admission import RULES
from queue_manager.engine.rest_client import RestClient
from queue_manager.jobs.webhook import WEBHOOK
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin, AdmissionReview
from queue_manager.local.status_errors import sentence
from tests.control_plane.server import free_ports

Json = Any
NAME = "sluice-tests"
_CONFIGURATION = ("admissionregistration.k8s.io", "v1")
CONFIGURATIONS = {
    "mutate": Resource(*_CONFIGURATION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False),
    "validate": Resource(*_CONFIGURATION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False),
}


@dataclass
class Webhooks:
    """The endpoint that the API server calls, and how often it was called."""

    port: int
    certificate: Path  # certificate and key
    asked: dict[str, int] = field(default_factory=lambda: {"mutate": 0, "validate": 0})

    @classmethod
    def at_some_port(cls, folder: Path) -> Webhooks:
        return cls(free_ports(1)[0], _new_certificate(folder / "webhooks.pem"))

    def configuration(self, path: str) -> Json:
        """The configuration that makes the API server call `path` for Jobs in namespaces labelled with NAME, and for
        queue kinds.
        """
        hooks = [self._hook(path, JOBS, WEBHOOK, namespaceSelector={"matchLabels": {NAME: "true"}})]
        hooks += [self._hook(path, resource, f"v{resource.kind.lower()}.kb.io") for resource in RULES]
        return {"metadata": {"name": NAME}, "webhooks": hooks}

    def client_config(self, path: str) -> Json:
        """How the API server calls a path here: /mutate, /validate or /convert."""
        _, begin, certificate = self.certificate.read_text().partition("-----BEGIN CERTIFICATE-----")
        authority = base64.b64encode((begin + certificate).encode()).decode()
        return {"url": f"https://127.0.0.1:{self.port}/{path}", "caBundle": authority}

    def _hook(self, path: str, resource: Resource, name: str, **more: Json) -> Json:
        parts = [resource.plural, *([f"{resource.plural}/status"] if resource == WORKLOADS else [])]
        rule = {"apiGroups": [resource.group], "apiVersions": [resource.version], "resources": parts}
        return {
            "name": name,
            "clientConfig": self.client_config(path),
            "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }

    @contextlib.asynccontextmanager
    async def serve(self, rules: Sequence[AdmissionPlugin]) -> AsyncIterator[None]:
        """Answer with these rules; the list may be changed meanwhile."""

        async def answer(request: web.Request) -> web.Response:
            path = request.match_info["path"]
            self.asked[path] += 1
            asked = json.loads(await request.read())["request"]
            given = _mutated(rules, asked) if path == "mutate" else _validated(rules, asked)
            response = {"uid": asked["uid"], **given}
            return web.json_response(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            )

        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/convert", _converted)
        app.router.add_post("/{path}", answer)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=context, reuse_address=True).start()
            yield
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def registered(api: RestClient, hooks: Webhooks) -> AsyncIterator[None]:
    """Install both webhook configurations in the API server."""
    try:
        for path, resource in CONFIGURATIONS.items():
            await api.create(resource, "", hooks.configuration(path))
        yield
    finally:
        for resource in CONFIGURATIONS.values():
            await api.delete(resource, "", NAME)


async def _converted(request: web.Request) -> web.Response:
    return web.json_response(conversion_review.answer(json.loads(await request.read())))


def _review(asked: Json) -> AdmissionReview:
    kind = asked["kind"]
    resource = by_kind(f"{kind['group']}/{kind['version']}", kind["kind"])
    user, sub = asked["userInfo"]["username"], asked.get("subResource", "")
    review = AdmissionReview(asked["operation"], resource, sub, asked["object"], asked.get("oldObject"), user)
    review.dry_run = asked.get("dryRun", False)
    return review


def _mutated(rules: Sequence[AdmissionPlugin], asked: Json) -> Json:
    before = json.loads(json.dumps(asked["object"]))
    review = _review(asked)
    errors = [error for rule in list(rules) for error in rule.mutate(review) or ()]
    patch = [
        {"op": "add", "path": f"/{key}", "value": value}
        for key, value in review.object.items()
        if before.get(key) != value
    ]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    changes = {"patchType": "JSONPatch", "patch": encoded} if patch else {}
    return {**_verdict(errors), **changes, "warnings": review.warnings}


def _validated(rules: Sequence[AdmissionPlugin], asked: Json) -> Json:
    review = _review(asked)
    return _verdict([error for rule in list(rules) for error in rule.validate(review)])


def _verdict(errors: Sequence[Any]) -> Json:
    if not errors:
        return {"allowed": True}
    return {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": sentence(list(errors))}}


def _new_certificate(path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, *plain) + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path
