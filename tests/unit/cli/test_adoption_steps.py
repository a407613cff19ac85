"""The file in which `sluice adopt --apply` saves Kueue's objects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from queue_manager.adoption.losses import AdoptedObjects
from queue_manager.cli.adoption_reading import KueueCluster
from queue_manager.cli.adoption_steps import load, save


def cluster(*names: str) -> KueueCluster:
    crds = tuple({"metadata": {"name": name}, "spec": {"group": "kueue.x-k8s.io"}} for name in names)
    return KueueCluster(AdoptedObjects(), (), None, crds)


def test_a_copy_that_was_not_written_to_its_end_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "kueue.yaml")

    def fail(descriptor: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space"):
            save(file, cluster("workloads"))
    save(file, cluster("workloads", "cohorts"))
    assert [tree["metadata"]["name"] for tree in load(file)] == ["workloads", "cohorts"]


def test_the_copy_of_an_earlier_try_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "kueue.yaml")
    save(file, cluster("workloads", "cohorts"))
    save(file, cluster("workloads"))
    assert len(load(file)) == 2
    assert capsys.readouterr().out.endswith("with 2 objects is kept, from an earlier try\n")
    assert os.listdir(tmp_path) == ["kueue.yaml"]
