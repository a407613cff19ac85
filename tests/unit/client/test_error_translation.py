"""Errors of the official client and of urllib3, as the client raises them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import ApiException
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProtocolError, SSLError

from queue_manager.client.error_translation import translated_errors
from queue_manager.client.errors import ClusterUnreachable, Error, RequestFailed

SERVER = "https://server:6443"
INVALID = 'Job.batch "one" is invalid: spec.parallelism: Invalid value: -1: must be greater than or equal to 0'
STRICT = 'strict decoding error: unknown field "spec.paralelism", unknown field "spec.template.spec.x"'


def answer(status: int, body: str | bytes | None, reason: str = "") -> ApiException:
    error = ApiException(status=status, reason=reason)
    error.body = body
    return error


def status_object(reason: str, message: str, fields: tuple[str, ...] = ()) -> str:
    causes = [{"field": field, "message": "wrong"} for field in fields]
    return json.dumps({"kind": "Status", "reason": reason, "message": message, "details": {"causes": causes}})


def raised(error: Exception, kubeconfig: Path | None = None) -> Any:
    with pytest.raises(Error) as found, translated_errors(SERVER, kubeconfig):
        raise error
    assert found.value.__cause__ is error
    return found.value


@pytest.mark.parametrize(
    ("official", "text", "reason", "fields"),
    [
        (
            answer(422, status_object("Invalid", INVALID, ("spec.parallelism", "spec.parallelism", "spec.x"))),
            f"422 Invalid: {INVALID}",
            "Invalid",
            ("spec.parallelism", "spec.x"),
        ),
        (
            answer(400, status_object("BadRequest", f'Job in version "v1" cannot be handled as a Job: {STRICT}')),
            f'400 BadRequest: Job in version "v1" cannot be handled as a Job: {STRICT}',
            "BadRequest",
            ("spec.paralelism", "spec.template.spec.x"),
        ),
        (
            answer(401, status_object("Unauthorized", "no")),
            "the cluster rejects the credentials (401): log in again",
            "Unauthorized",
            (),
        ),
        (answer(503, "not now", "Service Unavailable"), "503: not now", "", ()),
        (answer(410, None, "Expired: too old"), "410: Expired: too old", "", ()),
    ],
    ids=["invalid", "unknown fields", "not logged in", "no Status object", "of a watch"],
)
def test_an_answer_of_the_server_is_its_message_and_its_fields(
    official: ApiException, text: str, reason: str, fields: tuple[str, ...]
) -> None:
    error = raised(official)
    assert isinstance(error, RequestFailed)
    assert (str(error), error.status, error.reason, error.fields) == (text, official.status, reason, fields)


def pool_error(reason: Exception) -> MaxRetryError:
    """What the pool raises after its last retry."""
    error = MaxRetryError(SimpleNamespace(), "/path", reason)  # type: ignore[arg-type]
    error.__cause__ = reason
    return error


def connection_error(cause: OSError) -> NewConnectionError:
    error = NewConnectionError(SimpleNamespace(), "no connection")  # type: ignore[arg-type]
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (pool_error(connection_error(ConnectionRefusedError(111, "refused"))), "connection refused"),
        (pool_error(connection_error(TimeoutError("timed out"))), "timed out"),
        (pool_error(ProtocolError("Connection aborted.", ConnectionResetError(104, "x"))), "connection reset by peer"),
        (pool_error(SSLError(OSError("wrong version number"))), "wrong version number"),
        (ProtocolError("Connection broken"), "Connection broken"),
        (ConnectionResetError(104, "x"), "connection reset by peer"),
    ],
    ids=["refused", "timed out", "reset", "no TLS", "broken", "of the socket"],
)
def test_a_connection_that_fails_names_server_and_cause(broken: Exception, why: str) -> None:
    error = raised(broken)
    assert isinstance(error, ClusterUnreachable)
    assert isinstance(error, ConnectionError)
    assert str(error) == f"the cluster does not answer at {SERVER} ({why}): it is down, or the address is wrong"
    assert error.server == SERVER


def test_the_remedy_for_a_cluster_of_sluice_up_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_DATA_DIR", str(tmp_path))
    (tmp_path / "serving.pem").touch()
    error = raised(pool_error(connection_error(ConnectionRefusedError(111, "refused"))), tmp_path / "kubeconfig")
    assert str(error).endswith(
        f"the cluster of {tmp_path} does not answer at {SERVER} (connection refused); to start it: sluice up"
    )


def test_a_text_begins_with_what_was_done_before_the_error() -> None:
    done = "Job default/one was created, but cannot be read: "
    with pytest.raises(RequestFailed, match=f"^{done}403 Forbidden: no$"), translated_errors(SERVER, None, done):
        raise answer(403, status_object("Forbidden", "no"))


def test_errors_of_the_client_itself_are_left_alone() -> None:
    with pytest.raises(FileNotFoundError), translated_errors(SERVER, None):
        raise FileNotFoundError("ca.pem")
