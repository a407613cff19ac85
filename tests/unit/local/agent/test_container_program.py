"""The program of a container: its arguments, executable and working directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from job_controller.json_tree import Json
from queue_manager.local.agent.container_program import arguments, executable, probe_command, working_directory
from queue_manager.local.agent.environment import StartError

TOO_LONG = "argument list too long"


def test_the_words_of_a_command_are_expanded_one_by_one() -> None:
    container = {"command": ["$(A)", "x"], "args": ["$(A) $(B)"]}
    assert arguments(container, {"A": "a b"}) == ["a b", "x", "a b $(B)"]
    assert arguments({"args": None}, {}) == []


def test_the_command_of_a_probe_expands_plain_values_of_its_container() -> None:
    env: list[Json] = [
        {"name": "A", "value": "$(B)"},
        {"name": "V", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "TOKEN"}}},
        {"name": "E"},
    ]
    assert probe_command({"env": env}, ["$(A)", "<$(V)$(E)>", "$(HOME) $$(A)"]) == ["$(B)", "<>", "$(HOME) $(A)"]
    assert probe_command({}, ["test", "$(A)"]) == ["test", "$(A)"]


def a_file(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_an_executable_is_found_in_path_or_relative_to_the_working_directory(tmp_path: Path) -> None:
    tool, script = a_file(tmp_path / "bin" / "tool"), a_file(tmp_path / "run.sh")
    a_file(tmp_path / "no" / "tool", 0o644)
    (tmp_path / "folder" / "tool").mkdir(parents=True)
    path = f"{tmp_path / 'no'}:{tmp_path / 'folder'}:{tool.parent}"
    assert executable("tool", "/", path) == str(tool)
    assert executable("tool", str(tmp_path), "no:bin") == str(tool)
    assert Path(executable("./run.sh", str(tmp_path), "")).samefile(script)
    assert executable(str(tool), "/nowhere", "") == str(tool)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("none", 'exec: "none": executable file not found in $PATH'),
        ("", 'exec: "": executable file not found in $PATH'),
        ("./none", 'exec: "./none": stat ./none: no such file or directory'),
        ("./plain", 'exec: "./plain": permission denied'),
        ("./bin", 'exec: "./bin": permission denied'),
    ],
)
def test_a_missing_executable_has_the_message_of_a_runtime(tmp_path: Path, command: str, message: str) -> None:
    a_file(tmp_path / "bin" / "tool")
    a_file(tmp_path / "plain", 0o644)
    with pytest.raises(StartError) as refused:
        executable(command, str(tmp_path), str(tmp_path / "bin"))
    assert str(refused.value) == message


def test_the_default_working_directory_is_the_containers_own(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    home = str(tmp_path)
    assert Path(working_directory({}, home)).samefile(home)
    assert Path(working_directory({"workingDir": "sub"}, home)).samefile(tmp_path / "sub")
    assert working_directory({"workingDir": "/"}, home) == "/"


@pytest.mark.parametrize("named", ["out", "out/", "sub/dir", "./a/../b"])
def test_a_working_directory_inside_the_containers_own_is_created(tmp_path: Path, named: str) -> None:
    (tmp_path / "home").mkdir()
    made = Path(working_directory({"workingDir": named}, str(tmp_path / "home")))
    assert made.is_dir()
    assert made.resolve().is_relative_to(tmp_path / "home")
    assert Path(working_directory({"workingDir": named}, str(tmp_path / "home"))).samefile(made)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("../out", 'workingDir "../out": no such directory on this machine'),
        ("/no/dir", 'workingDir "/no/dir": no such directory on this machine'),
        ("file", 'workingDir "file": File exists'),
        ("file/sub", 'workingDir "file/sub": Not a directory'),
        ("a\0b", "workingDir has a zero byte, which no program can be given"),
    ],
)
def test_an_unusable_working_directory_is_refused(tmp_path: Path, named: str, message: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "file").touch()
    with pytest.raises(StartError) as refused:
        working_directory({"workingDir": named}, str(home))
    assert str(refused.value) == message
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("args", [["$(A)" * 1000], ["$(A)"] * 10_000])
def test_arguments_beyond_the_size_limit_of_a_program_are_refused(args: list[str]) -> None:
    with pytest.raises(StartError, match=TOO_LONG):
        arguments({"command": ["echo"], "args": args}, {"A": "x" * 1000})
