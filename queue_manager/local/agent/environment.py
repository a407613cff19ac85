"""The environment variables of a container: declared in its spec, or set by its runtime.

Nothing of the agent's own environment is inherited. `container_program` has what the container executes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from job_controller.json_tree import Json
from job_controller.quantities import exact
from queue_manager.local.agent.escaped_processes import MARK, PLACE

# What images set as a rule. PYTHONUNBUFFERED, as in most images for Python: what a program prints is logged at once.
_OF_IMAGE = {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# An unclosed `$(` consumes the rest of the text, which keeps matching linear in the length of the text.
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)(\)|\Z)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
# Limits of execve(2) on Linux. They also bound the expansion of variables that refer to one another repeatedly.
MAX_TEXT = 128 * 1024  # characters of an argument or a variable
MAX_TEXTS = 6 * 1024 * 1024  # of all together

# Reads a ConfigMap or Secret: (kind, namespace, name) -> its data as text, None if there is no such object.
Source = Callable[[str, str, str], Awaitable[Mapping[str, str] | None]]


class ConfigError(Exception):
    """The configuration of the container cannot be resolved now; waiting reason CreateContainerConfigError."""


class StartError(Exception):
    """The container was created, and its program cannot be executed: it ends with StartError, as with containerd."""


@dataclass(frozen=True, slots=True)
class Host:
    """The node's values that the downward API exposes."""

    name: str
    ip: str
    allocatable: Mapping[str, str]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value and `$$` by `$`; unknown references stay as they are. Raises StartError."""
    room = MAX_TEXT

    def value(match: re.Match[str]) -> str:
        nonlocal room
        if match[0] == "$$":
            found = "$"
        elif match[2]:
            found = variables.get(match[1], match[0])
        else:
            found = match[0].replace("$$", "$")
        room = remaining_room(room, len(found))
        return found

    return _REFERENCE.sub(value, text)


def remaining_room(room: int, length: int) -> int:
    """The characters left of `room` after a text of this length. Raises StartError if there are too few."""
    if length > room:
        raise StartError("argument list too long")
    return room - length


def check_zeros(what: str, text: str) -> None:
    """Raise StartError on a zero byte, which the API allows but which ends a string passed to execve(2)."""
    if "\0" in text:
        raise StartError(f"{what} has a zero byte, which no program can be given")


async def declared(pod: Json, container: Json, host: Host, source: Source) -> dict[str, str]:
    """The variables that the spec declares for a container, in order: `$(NAME)` may refer to earlier ones.

    Raises ConfigError, StartError.
    """
    own: dict[str, str] = {}
    room = MAX_TEXTS
    for entry in container.get("envFrom") or ():
        more = await _env_from(entry, pod["metadata"]["namespace"], source)
        room = remaining_room(room, sum(map(len, more.values())))
        own |= more
    for entry in container.get("env") or ():
        value = await _env_value(entry, own, pod, container, host, source)
        if value is not None:
            room = remaining_room(room, len(value))
            own[entry["name"]] = value
    for name, value in own.items():
        check_zeros(f"the value of the variable {name}", value)
    return own


def environment(pod: Json, own: Mapping[str, str], home: str) -> dict[str, str]:
    """All variables of a container: those that its runtime sets, overridden by `own`, the result of `declared`.

    `home` is its working directory, <directory of the pod>/<container>/work.
    """
    metadata = pod["metadata"]
    variables = {"PATH": PATH, "HOME": home, **_OF_IMAGE}
    variables["HOSTNAME"] = pod["spec"].get("hostname") or metadata["name"]
    return {**variables, **own, MARK: metadata["uid"], PLACE: os.path.dirname(os.path.dirname(home))}


def field(path: str, pod: Json, host: Host) -> str:
    """The value of a fieldRef of the downward API. Raises ConfigError for an unsupported path."""
    metadata, spec = pod["metadata"], pod["spec"]
    if match := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata[path.removeprefix("metadata.")])
        case "spec.nodeName":
            return host.name
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName", ""))
        case "status.podIP" | "status.podIPs" | "status.hostIP" | "status.hostIPs":
            return host.ip
    raise ConfigError(f"unsupported fieldPath: {path}")


def resource_field(reference: Json, pod: Json, container: Json, host: Host) -> str:
    """The value of a resourceFieldRef. An absent limit is the node's allocatable, an absent request the limit or 0."""
    kind, _, name = reference["resource"].partition(".")
    wanted = reference.get("containerName") or container["name"]
    all_containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    target = next((c for c in all_containers if c["name"] == wanted), None)
    if target is None or kind not in ("limits", "requests"):
        raise ConfigError(f"container {wanted} not found" if target is None else f"unsupported resource: {reference}")
    resources = target.get("resources") or {}
    limit = (resources.get("limits") or {}).get(name)
    value = limit if kind == "limits" else (resources.get("requests") or {}).get(name, limit)
    if value is None:
        value = host.allocatable.get(name, "0") if kind == "limits" else "0"
    parts = exact(value) / (exact(reference.get("divisor") or "1") or 1)
    return str(-(-parts.numerator // parts.denominator))


async def _env_from(entry: Json, namespace: str, source: Source) -> dict[str, str]:
    kind, reference = (
        ("configmap", entry.get("configMapRef")) if "configMapRef" in entry else ("secret", entry.get("secretRef"))
    )
    reference = reference or {}
    data = await source(kind, namespace, reference.get("name", ""))
    if data is None and not reference.get("optional"):
        raise ConfigError(f'{kind} "{reference.get("name", "")}" not found')
    prefix = entry.get("prefix") or ""
    return {prefix + key: value for key, value in (data or {}).items() if _VARIABLE.fullmatch(prefix + key)}


async def _env_value(
    entry: Json, known: Mapping[str, str], pod: Json, container: Json, host: Host, source: Source
) -> str | None:
    origin = entry.get("valueFrom")
    if not origin:
        return expand(entry.get("value") or "", known)
    if reference := origin.get("fieldRef"):
        return field(reference["fieldPath"], pod, host)
    if reference := origin.get("resourceFieldRef"):
        return resource_field(reference, pod, container, host)
    if reference := origin.get("configMapKeyRef"):
        return await _key("configmap", "ConfigMap", reference, pod["metadata"]["namespace"], source)
    if reference := origin.get("secretKeyRef"):
        return await _key("secret", "Secret", reference, pod["metadata"]["namespace"], source)
    raise ConfigError(f"env {entry['name']}: unsupported valueFrom {', '.join(sorted(origin))}")


async def _key(kind: str, title: str, reference: Json, namespace: str, source: Source) -> str | None:
    name, key = reference.get("name", ""), reference["key"]
    data = await source(kind, namespace, name)
    if data is not None and key in data:
        return data[key]
    if reference.get("optional"):
        return None
    if data is None:
        raise ConfigError(f'{kind} "{name}" not found')
    raise ConfigError(f"couldn't find key {key} in {title} {namespace}/{name}")
