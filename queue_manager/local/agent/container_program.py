"""Which program a container executes: its executable, arguments and working directory."""

from __future__ import annotations

import os
from collections.abc import Mapping

from job_controller.json_tree import Json
from queue_manager.local.agent.environment import MAX_TEXTS, StartError, check_zeros, expand, remaining_room


def arguments(container: Json, own: Mapping[str, str]) -> list[str]:
    """command and args with their references expanded. Raises StartError."""
    expanded, room = [], MAX_TEXTS
    for text in (*(container.get("command") or ()), *(container.get("args") or ())):
        expanded.append(expand(text, own))
        room = remaining_room(room, len(expanded[-1]))
        check_zeros("an argument", expanded[-1])
    return expanded


def probe_command(container: Json, command: list[str]) -> list[str]:
    """The command of a probe, expanded only with the literal values of the container's `env`. Raises StartError."""
    plain = {entry["name"]: entry.get("value") or "" for entry in container.get("env") or ()}
    return [expand(text, plain) for text in command]


def executable(command: str, directory: str, path: str) -> str:
    """The absolute path of the program `command`. Raises StartError with the message of a container runtime."""
    if "/" in command:
        candidate = os.path.join(directory, command)
        if not os.path.exists(candidate):
            raise StartError(f'exec: "{command}": stat {command}: no such file or directory')
        if not _can_run(candidate):
            raise StartError(f'exec: "{command}": permission denied')
        return candidate
    for folder in path.split(":"):
        candidate = os.path.join(directory, folder, command)
        if command and _can_run(candidate):
            return candidate
    raise StartError(f'exec: "{command}": executable file not found in $PATH')


def working_directory(container: Json, home: str) -> str:
    """The directory that the container starts in: its workingDir, or its own directory `home`. Raises StartError.

    A missing directory inside `home` is created, as container runtimes do. One elsewhere on this machine has to exist.
    """
    named = container.get("workingDir") or ""
    check_zeros("workingDir", named)
    directory = os.path.join(home, named)
    if os.path.commonpath((home, os.path.normpath(directory))) == home:
        try:
            os.makedirs(directory, exist_ok=True)
        except OSError as error:
            raise StartError(f'workingDir "{named}": {error.strerror}') from error
    elif not os.path.isdir(directory):
        raise StartError(f'workingDir "{named}": no such directory on this machine')
    return directory


def _can_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
