"""`sluice install`: prints the manifests of an installation; it connects to nothing."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from pathlib import Path

import yaml

from job_controller.json_tree import Json
from queue_manager import kube_yaml
from queue_manager.cli.check_config import named_text
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.standard_streams import say
from queue_manager.configuration import ConfigurationError, loads
from queue_manager.installation.fixed_config_fields import certificate_misfits, misfits
from queue_manager.installation.helm_values import SettingsError, merged_values, settings_from, values_yaml
from queue_manager.installation.object_names import DEFAULT_NAMESPACE
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import MANAGED, MAX_VALUES, UNPUBLISHED, Settings
from queue_manager.installation.yaml_text import as_yaml

LOCAL_IMAGE = (
    f"sluice install: image.repository is the default, {UNPUBLISHED}, which no registry has: load that image of `make "
    "image` onto each node, or name a registry that has it: --set image.repository=registry.example/sluice"
)


def run(args: argparse.Namespace) -> int:
    """Print the manifests; return the exit code."""
    if args.list_settings:
        sys.stdout.write(values_yaml())
        return EXIT_OK
    settings = read_settings(args)
    sys.stdout.write(as_yaml(objects(settings, args.namespace)))
    if settings.image.repository == UNPUBLISHED:
        say(LOCAL_IMAGE)
    return EXIT_OK


def command_of(args: argparse.Namespace) -> str:
    """Return the command that installs what these arguments, of `sluice upgrade --check` too, describe."""
    words = ["--namespace", args.namespace] if args.namespace != DEFAULT_NAMESPACE else []
    words += [word for each in args.values for word in ("--values", each)]
    words += [word for each in args.set for word in ("--set", each)]
    words += ["--config", args.config] if args.config is not None else []
    words += ["--without-crds"] if args.without_crds else []
    words += ["--namespaced", ",".join(args.namespaced)] if args.namespaced else []
    words += ["--cluster-objects", args.cluster_objects] if args.cluster_objects is not None else []
    return f"{shlex.join(['sluice', 'install', *words])} | kubectl apply --server-side -f -"


def read_settings(args: argparse.Namespace) -> Settings:
    """Return the settings of the command line. Raises CommandRefused with all mistakes."""
    options: Json = {}
    documents = [_read(path) for path in args.values]
    if args.without_crds:
        options["crds"] = {"install": False}
    if args.namespaced:
        options["namespaces"] = list(args.namespaced)
    if args.config is not None:
        options["managerConfig"] = {
            "controllerManagerConfigYaml": _config(args.config, _certificate_source(documents, args.set))
        }
    if args.cluster_objects is not None:
        options["clusterObjects"] = _text(args.cluster_objects)
    try:
        settings = settings_from([*documents, options], args.set)
    except SettingsError as error:
        raise CommandRefused(str(error), EXIT_NEVER) from error
    if settings.cluster_objects or args.cluster_objects is not None:
        _check_cluster_objects(settings, args.cluster_objects or "clusterObjects")
    return settings


def _check_cluster_objects(settings: Settings, name: str) -> None:
    """Raise CommandRefused with all mistakes in the objects, by the rules of the manager that will read them."""
    from queue_manager.cli.cluster_object_files import read_text  # imports the embedded API server

    config = loads(settings.manager_config.controller_manager_config_yaml)
    asyncio.run(read_text(settings.cluster_objects, name, config))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandRefused(f"{path}: {error.strerror}", EXIT_NEVER) from error
    except UnicodeDecodeError as error:
        raise CommandRefused(f"{path}: byte {error.start} is not UTF-8", EXIT_NEVER) from error


def _certificate_source(documents: list[Json], assignments: list[str]) -> str:
    """Return `certificates.source` as it was written: its mistakes are reported with those of the other settings."""
    try:
        found = merged_values(documents, assignments).get("certificates")
    except SettingsError as error:
        raise CommandRefused(str(error), EXIT_NEVER) from error
    return str(found.get("source", MANAGED)) if isinstance(found, dict) else MANAGED


def _config(path: str, source: str) -> str:
    """The text of a KueueConfig that fits `certificates.source`.

    Raises CommandRefused with all its mistakes, each with its line in the file.
    """
    try:
        name, text = named_text(path)
        config = loads(text, name)
        if problems := [*misfits(config, text, name), *certificate_misfits(config, text, name, source)]:
            raise ConfigurationError(problems)
    except ConfigurationError as error:
        raise CommandRefused(str(error), EXIT_NEVER) from error
    return text


def _read(path: str) -> Json:
    """Return the settings of a file."""
    try:
        tree = kube_yaml.load(Path(path).read_text(encoding="utf-8"), MAX_VALUES)
    except OSError as error:
        raise CommandRefused(f"{path}: {error.strerror}", EXIT_NEVER) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandRefused(f"{path}: is not YAML: {' '.join(str(error).split())}", EXIT_NEVER) from error
    if not isinstance(tree, dict | None):
        raise CommandRefused(f"{path}: is not a mapping of settings", EXIT_NEVER)
    return tree or {}
