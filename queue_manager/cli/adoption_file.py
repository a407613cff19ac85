"""The file in which `sluice adopt --apply` saves Kueue's objects, and from which `--undo` restores them."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from job_controller.json_tree import Json
from queue_manager.adoption.kueue_installation import manifest
from queue_manager.api.api_resources import CONFIG_MAPS, CRDS
from queue_manager.cli.adoption_reading import KueueCluster
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.installed_objects import is_installed
from queue_manager.cli.outdated_copies import first_difference, taken_away
from queue_manager.cli.standard_streams import write
from queue_manager.cli.stop_report import counted
from queue_manager.installation import object_names
from queue_manager.yaml_problems import located_yaml_error


def save(file: str, cluster: KueueCluster) -> None:
    """Write the manifests of everything that is changed or replaced.

    An existing file is kept if it is the copy of an earlier try, before anything was changed. Raises CommandRefused if
    it holds something else, such as a Kueue that was changed since.
    """
    trees = [manifest(CONFIG_MAPS, cluster.config)] if cluster.config is not None else []
    trees += [manifest(item.resource, item.tree) for item in cluster.installed]
    trees += [manifest(resource, tree) for resource, tree in cluster.replaced]
    trees += [manifest(CRDS, crd) for crd in cluster.crds]
    try:
        _write_new(Path(file), yaml.safe_dump_all(trees, sort_keys=False))
    except FileExistsError:
        _keep(file, [tree for tree in trees if not is_installed(tree)])
        return
    except OSError as error:
        raise CommandRefused(f"{file}: {error.strerror or error}") from error
    write(f"{counted(len(trees), 'object')} saved in {file}")


def _keep(file: str, live: list[Json]) -> None:
    """Report that the file stays the copy. Raises CommandRefused if it is not of the Kueue on the cluster."""
    saved = load(file)
    if not (difference := first_difference(saved, live)):
        write(f"{file} with {counted(len(saved), 'object')} is kept, from an earlier try")
        return
    if only_here := taken_away(saved, live):
        raise CommandRefused(
            f"nothing was changed: {file} is from an earlier try, and Kueue differs from it now: {difference}; "
            f"keep the file, which may have the only copy of {only_here}; correct that place in the file or on the "
            "cluster, and repeat the command"
        )
    raise CommandRefused(
        f"nothing was changed: {file} is the copy of another Kueue than the cluster has now: {difference}; "
        "move the file away, or name another with --save"
    )


def _write_new(path: Path, text: str) -> None:
    """Create a file with the whole text or not at all: a crash leaves no part that the next try would take for the
    copy.

    Raises FileExistsError.
    """
    part = path.with_name(f"{path.name}.part")
    with part.open("w", encoding="utf-8") as target:
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
    try:
        os.link(part, path)
    finally:
        part.unlink()


def load(file: str) -> list[Json]:
    """Return the manifests of a file that `save` wrote. Raises CommandRefused."""
    trees = _documents(file)
    if not trees:
        raise CommandRefused(f"{file}: has no object")
    for number, tree in enumerate(trees, 1):
        if not _is_saved(tree):
            raise CommandRefused(f"{file}: document {number} is not an object that `sluice adopt` saves")
    return trees


def _documents(file: str) -> list[Json]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandRefused(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandRefused(f"{file}: byte {error.start} is not UTF-8") from error
    try:
        return [tree for tree in yaml.safe_load_all(text) if tree]
    except yaml.YAMLError as error:
        raise CommandRefused(located_yaml_error(file, text, error)) from error
    except (ValueError, RecursionError) as error:  # ValueError: a date without such a day
        raise CommandRefused(f"{file}: {error}") from error


def _is_saved(tree: Json) -> bool:
    """Whether this is a manifest of a kind that `save` writes, with all that a restoration reads."""
    if not isinstance(tree, dict) or not isinstance(tree.get("kind"), str) or tree["kind"] not in object_names.KINDS:
        return False
    meta = tree.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        return False
    if not isinstance(meta.get("namespace") or "", str) or not isinstance(meta.get("labels") or {}, dict):
        return False
    return bool(meta.get("namespace")) == object_names.KINDS[tree["kind"]].namespaced
