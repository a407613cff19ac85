"""Whose Jobs the commands of one machine create."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from queue_manager.cli.login_name import login_name, name_user, submitter
from queue_manager.local.storage.data_directory import CERTIFICATE


def test_a_uid_without_a_name_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert login_name() == ""


def test_only_the_cluster_of_one_machine_believes_a_login_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The webhook of a cluster writes who is authenticated; of a service account it believes what is written."""
    monkeypatch.setenv("LOGNAME", "carla")
    assert submitter(tmp_path / "kubeconfig") == ""
    (tmp_path / CERTIFICATE).touch()
    assert submitter(tmp_path / "kubeconfig") == "carla"


@pytest.mark.parametrize(
    ("meta", "user", "annotations"),
    [
        ({}, "carla", {"sluice/user": "carla"}),
        ({"annotations": {"a": "b"}}, "carla", {"a": "b", "sluice/user": "carla"}),
        ({"annotations": {"sluice/user": "bob"}}, "carla", {"sluice/user": "bob"}),
        ({"labels": {"sluice/user": "bob"}}, "carla", None),
        ({"annotations": None}, "", None),
        ({"annotations": "x"}, "carla", "x"),  # refused by the API server
    ],
)
def test_a_job_is_that_of_its_submitter_unless_its_manifest_says_whose(
    meta: dict[str, Any], user: str, annotations: object
) -> None:
    name_user(meta, user)
    assert meta.get("annotations") == annotations
