"""Validation of the volumes of a pod spec (upstream ValidateVolumes)."""

from __future__ import annotations

from job_controller.api_rules import names
from job_controller.api_rules.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from job_controller.json_tree import Json

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def validate_volumes(volumes: Json, path: str) -> tuple[set[str], list[FieldError]]:
    """The names of the valid volumes, and the errors of the others."""
    usable: set[str] = set()
    errors: list[FieldError] = []
    for i, volume in enumerate(volumes):
        at, name = f"{path}[{i}]", volume.get("name", "")
        found = _validate_source(volume, at)
        if not name:
            found.append(required(f"{at}.name"))
        else:
            found += [invalid(f"{at}.name", name, text) for text in names.dns_label(name)]
        if name in usable:
            found.append(duplicate(f"{at}.name", name))
        if not found:
            usable.add(name)
        errors += found
    return usable, errors


def _validate_source(volume: Json, path: str) -> list[FieldError]:
    kinds = [kind for kind in volume if kind != "name"]
    if not kinds:
        return [required(path, "must specify a volume type")]
    errors = [forbidden(f"{path}.{kind}", "may not specify more than 1 volume type") for kind in kinds[1:]]
    kind = kinds[0]
    check = _SOURCES.get(kind)
    return errors if check is None else check(volume[kind] or {}, f"{path}.{kind}") + errors


def _empty_dir(source: Json, path: str) -> list[FieldError]:
    limit = source.get("sizeLimit")
    if isinstance(limit, str) and limit.startswith("-"):
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _host_path(source: Json, path: str) -> list[FieldError]:
    target, kind = source.get("path", ""), source.get("type") or ""
    if not target:
        return [required(f"{path}.path")]
    errors = _no_backsteps(target, f"{path}.path")
    if kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))
    return errors


def _secret(source: Json, path: str) -> list[FieldError]:
    errors = [] if source.get("secretName") else [required(f"{path}.secretName")]
    return errors + _files(source, path)


def _config_map(source: Json, path: str) -> list[FieldError]:
    errors = [] if source.get("name") else [required(f"{path}.name")]
    return errors + _files(source, path)


def _files(source: Json, path: str) -> list[FieldError]:
    errors = _mode(source, "defaultMode", path)
    for i, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{i}]"
        if not item.get("key"):
            errors.append(required(f"{at}.key"))
        errors += _file_path(item, at)
    return errors


def _file_path(item: Json, path: str) -> list[FieldError]:
    target = item.get("path", "")
    errors = [] if target else [required(f"{path}.path")]
    if target:
        errors += local_path_errors(target, f"{path}.path")
        if target.startswith("..") and not target.startswith("../"):
            errors.append(invalid(f"{path}.path", target, "must not start with '..'"))
    return errors + _mode(item, "mode", path)


def _mode(source: Json, field: str, path: str) -> list[FieldError]:
    mode = source.get(field)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(f"{path}.{field}", mode, _FILE_MODE)]


def _claim(source: Json, path: str) -> list[FieldError]:
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def _nfs(source: Json, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{field}") for field in ("server", "path") if not source.get(field)]
    target = source.get("path", "")
    if target and not target.startswith("/"):
        errors.append(invalid(f"{path}.path", target, "must be an absolute path"))
    return errors


def _downward(source: Json, path: str) -> list[FieldError]:
    errors = _mode(source, "defaultMode", path)
    for i, item in enumerate(source.get("items") or ()):
        errors += _file_path(item, f"{path}.items[{i}]")
    return errors


def _projected(source: Json, path: str) -> list[FieldError]:
    errors = _mode(source, "defaultMode", path)
    for i, part in enumerate(source.get("sources") or ()):
        at = f"{path}.sources[{i}]"
        if "secret" in part and not part["secret"].get("name"):
            errors.append(required(f"{at}.secret.name"))
        if "configMap" in part and not part["configMap"].get("name"):
            errors.append(required(f"{at}.configMap.name"))
        token = part.get("serviceAccountToken")
        if token is not None:
            errors += _token(token, f"{at}.serviceAccountToken")
        if len(part) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type"))
    return errors


def _token(token: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        errors.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds is not None and seconds > 2**32:
        errors.append(
            invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    if not token.get("path"):
        errors.append(required(f"{path}.path"))
    return errors


_SOURCES = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "nfs": _nfs,
    "downwardAPI": _downward,
    "projected": _projected,
}


def local_path_errors(path: str, field: str) -> list[FieldError]:
    """The errors of a path inside a volume: it must be relative and not contain `..`."""
    errors = [invalid(field, path, "must be a relative path")] if path.startswith("/") else []
    return errors + _no_backsteps(path, field)


def _no_backsteps(path: str, field: str) -> list[FieldError]:
    return [invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []
