"""The file in which `sluice adopt --apply` saves Kueue's objects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from queue_manager.adoption.losses import AdoptedObjects
from queue_manager.cli.adoption_file import load, save
from queue_manager.cli.adoption_reading import KueueCluster
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.installation.object_names import NAME, NAME_LABEL


def cluster(*names: str) -> KueueCluster:
    crds = tuple({"metadata": {"name": name}, "spec": {"group": "kueue.x-k8s.io"}} for name in names)
    return KueueCluster(AdoptedObjects(), (), None, crds)


def test_a_copy_that_was_not_written_to_its_end_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "kueue.yaml")

    def fail(descriptor: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(CommandRefused, match=r"kueue\.yaml: no space"):
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


def test_objects_of_an_installation_of_sluice_are_not_compared(tmp_path: Path) -> None:
    """An installation that was interrupted has replaced a part of the definitions."""
    file = str(tmp_path / "kueue.yaml")
    save(file, cluster("workloads"))
    metadata = {"name": "workloads", "labels": {NAME_LABEL: NAME}}
    of_sluice = {"metadata": metadata, "spec": {"group": "kueue.x-k8s.io", "scope": "Cluster"}}
    save(file, KueueCluster(AdoptedObjects(), (), None, (of_sluice,)))


def test_an_empty_file_is_no_copy(tmp_path: Path) -> None:
    """It would be kept, and Kueue lost; a restoration from it would do nothing."""
    file = tmp_path / "kueue.yaml"
    file.touch()
    with pytest.raises(CommandRefused, match=r"kueue\.yaml: has no object$"):
        save(str(file), cluster("workloads"))


def test_a_copy_of_another_kueue_is_neither_kept_nor_written_over(tmp_path: Path) -> None:
    file = tmp_path / "kueue.yaml"
    save(str(file), cluster("workloads"))
    first = file.read_text()
    with pytest.raises(CommandRefused) as refused:
        save(str(file), cluster("workloads", "cohorts"))
    assert str(refused.value) == (
        f"nothing was changed: {file} is the copy of another Kueue than the cluster has now: "
        "CustomResourceDefinition cohorts is not in it; move the file away, or name another with --save"
    )
    assert file.read_text() == first


@pytest.mark.parametrize("name", ["absent.yaml", "absent/kueue.yaml"])
def test_a_file_that_cannot_be_opened_is_named_once_as_it_was_given(tmp_path: Path, name: str) -> None:
    file = str(tmp_path / name)
    with pytest.raises(CommandRefused) as refused:
        load(file)
    assert str(refused.value) == f"{file}: No such file or directory"


def test_a_folder_that_is_missing_is_reported_with_the_file_that_was_named(tmp_path: Path) -> None:
    file = str(tmp_path / "absent" / "kueue.yaml")
    with pytest.raises(CommandRefused) as refused:
        save(file, cluster("workloads"))
    assert str(refused.value) == f"{file}: No such file or directory"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"kind: Deployment\nmetadata: {name: x\n", ':2: not YAML: the mapping opened with "{" is not closed'),
        (b"kind: Deployment\n\tmetadata: x\n", ":2: not YAML: a tab cannot indent; use spaces"),
        (b"kind: !!python/name:os.system x\n", ":1: could not determine a constructor for the tag "),
        (b"kind: a\nname: \x07\n", ":2: character 0x7 is not allowed in YAML"),
        (b"kind: 2026-13-45\n", ": month must be in 1..12"),
        (b"kind: \xff\n", ": byte 6 is not UTF-8"),
    ],
)
def test_a_broken_file_is_reported_in_one_line_with_the_place(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "kueue.yaml"
    file.write_bytes(content)
    with pytest.raises(CommandRefused) as refused:
        load(str(file))
    assert str(refused.value).startswith(f"{file}{problem}")
    assert "\n" not in str(refused.value)
