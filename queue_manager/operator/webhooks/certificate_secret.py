"""Keeps the certificate of the webhook server in a Secret of the manager's namespace, which all replicas share.

The keys tls.crt, tls.key and ca.crt are those of a TLS Secret, as cert-manager writes it. While a successor is
announced, the Secret also has successor.crt, successor.key and successor.since. The first replica creates the Secret,
or fills one that an installation has created empty; a replica whose write comes second reads what the first one wrote.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from job_controller.api_rules.stored_form import parse_time
from job_controller.json_tree import Json
from job_controller.times import timestamp
from queue_manager.api.api_resources import SECRETS
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.operator.webhooks.certificate_rotation import OVERLAP, CertificateState, Pair, next_state

SERVING, SUCCESSOR = ("tls.crt", "tls.key"), ("successor.crt", "successor.key")
AUTHORITIES, ANNOUNCED = "ca.crt", "successor.since"
OWN_KEYS = (*SERVING, *SUCCESSOR, AUTHORITIES, ANNOUNCED)
MAX_ATTEMPTS = 5  # writes that lost against another replica's


class CertificateSecret:
    """The Secret `name` in `namespace`."""

    def __init__(self, client: RestClient, namespace: str, name: str, *, overlap: timedelta = OVERLAP) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._overlap = overlap

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def advance(self, names: Sequence[str], now: datetime, trusted_bundle: str) -> CertificateState:
        """Write what is due now and return the state. `trusted_bundle`: the bundle that all clients have.

        Raises ApiError if the Secret may not be read or written, OSError without a response.
        """
        for attempt in range(MAX_ATTEMPTS):
            stored = await self._read()
            state = read(stored)
            trusted = state.bundle == trusted_bundle
            after = next_state(state, names, now, trusted=trusted, overlap=self._overlap)
            if after == state:
                return state
            try:
                await self._write(stored, after)
            except ApiError as error:
                if not error.is_conflict or attempt == MAX_ATTEMPTS - 1:
                    raise
            else:
                return after
        raise AssertionError("unreachable")

    async def _read(self) -> Json | None:
        try:
            return await self._client.get(SECRETS, self._namespace, self._name)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def _write(self, stored: Json | None, state: CertificateState) -> None:
        """Create or replace the Secret. A replacement fails if another replica has written since `stored` was read."""
        if stored is None:
            secret = {"metadata": {"name": self._name}, "data": data(state)}
            await self._client.create(SECRETS, self._namespace, secret)
        else:
            others = {key: value for key, value in (stored.get("data") or {}).items() if key not in OWN_KEYS}
            await self._client.replace(SECRETS, {**stored, "data": others | data(state)})


def read(secret: Mapping[str, Json] | None) -> CertificateState:
    """The state in a Secret; what is missing or damaged counts as absent."""
    found = (secret or {}).get("data")
    texts = {key: _decoded(value) for key, value in found.items()} if isinstance(found, dict) else {}
    return CertificateState(
        _pair(texts, SERVING), texts.get(AUTHORITIES, ""), _pair(texts, SUCCESSOR), parse_time(texts.get(ANNOUNCED, ""))
    )


def data(state: CertificateState) -> dict[str, str]:
    """Return the `data` of the Secret that stores this state, in base64."""
    texts = {AUTHORITIES: state.bundle}
    for (certificate, key), pair in ((SERVING, state.serving), (SUCCESSOR, state.successor)):
        if pair is not None:
            texts |= {certificate: pair.certificate, key: pair.key}
    if state.announced is not None:
        texts[ANNOUNCED] = timestamp(state.announced)
    return {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}


def _pair(texts: Mapping[str, str], names: tuple[str, str]) -> Pair | None:
    certificate, key = (texts.get(name, "") for name in names)
    return Pair(certificate, key) if certificate and key else None


def _decoded(value: Json) -> str:
    try:
        return base64.b64decode(value).decode()
    except (ValueError, TypeError):
        return ""
