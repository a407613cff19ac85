"""Messages to the process that started a service."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from queue_manager.engine.service_notification import READY, VARIABLE, notify, take_starter


@pytest.mark.parametrize("abstract", [False, True])
def test_a_state_reaches_the_socket_of_the_environment(tmp_path: Path, abstract: bool) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{tmp_path}" if abstract else f"{tmp_path}/notify")
        listening.settimeout(10)
        notify(READY, {VARIABLE: f"@{tmp_path}" if abstract else f"{tmp_path}/notify"})
        assert listening.recv(100) == b"READY=1"


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}, {VARIABLE: "/nonexistent/socket"}])
def test_a_starter_that_does_not_listen_is_no_error(environment: dict[str, str]) -> None:
    notify(READY, environment)


def test_the_address_of_the_starter_is_inherited_by_no_process_of_ours() -> None:
    environment = {VARIABLE: "/run/notify", "PATH": "/bin"}
    assert take_starter(environment) == {VARIABLE: "/run/notify"}
    assert environment == {"PATH": "/bin"}
    assert take_starter(environment) == {}
