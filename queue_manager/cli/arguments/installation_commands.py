"""The commands that install Sluice on a cluster, change the installation, and take over from Kueue."""

from __future__ import annotations

import argparse

from queue_manager.api.component_names import NAMESPACE
from queue_manager.cli.arguments.argument_types import name_list, namespace, positive, span
from queue_manager.cli.arguments.shared_options import (
    OBJECT_NAME,
    Commands,
    add_client_options,
    add_connection_options,
    add_managers_namespace,
    add_output_option,
)


def add_crds(commands: Commands) -> None:
    """Add the command that prints the CRDs."""
    crds = commands.add_parser(
        "crds",
        help="print the queue's CustomResourceDefinitions, for kubectl apply -f -",
        epilog="To remove the queue and keep running Jobs: `sluice uninstall --crds`, once every `sluice manager` that "
        "is no Deployment has been stopped. It waits for the rest, and does what `kubectl delete` of the CRDs cannot: "
        "it removes finalizers and repeats a deletion that the API server has given up, which would hang otherwise.",
    )
    crds.add_argument(
        "--finish-delete",
        action="store_true",
        help="end a `kubectl delete` of them: remove the queue's finalizer from what is being deleted",
    )
    crds.add_argument(
        "--dry-run", action="store_true", help="with --finish-delete: print what would be done, change nothing"
    )
    add_client_options(crds, OBJECT_NAME)


def add_adopt(commands: Commands) -> None:
    """Add the command that takes over a cluster from Kueue."""
    adopt = commands.add_parser(
        "adopt",
        help="take over a cluster from Kueue: what would happen, and with --apply, stop Kueue",
        epilog="No Job is stopped: admitted Workloads keep their quota, pending ones are requeued. Afterwards "
        "`sluice install` brings Sluice's manager.",
    )
    adopt.add_argument(
        "-n", "--namespace", default=NAMESPACE, metavar="NS", help="of Kueue's manager (default: kueue-system)"
    )
    way = adopt.add_mutually_exclusive_group()
    way.add_argument("--apply", action="store_true", help="make the changes (default: print them only)")
    way.add_argument("--undo", metavar="F", help="restore Kueue from the file that --apply saved")
    adopt.add_argument(
        "--save",
        default="kueue-before-sluice.yaml",
        metavar="F",
        help="where --apply saves Kueue's objects (default: kueue-before-sluice.yaml)",
    )
    adopt.add_argument(
        "--accept-losses",
        action="store_true",
        help="take over, or undo, although something is lost",
    )
    adopt.add_argument(
        "--timeout", type=span, default=120.0, metavar="TIME", help="wait for the manager's pods to end (default 2m)"
    )
    add_connection_options(adopt)
    add_output_option(adopt, "")


def add_import(commands: Commands) -> None:
    """Add the command `import` and its options."""
    imported = commands.add_parser(
        "import",
        help="bring running Jobs into a queue: what would happen, and with --apply, do it",
        epilog="No Job is stopped, and no quota is exceeded: a Job whose Workload is not admitted stays outside. "
        "A repeated command continues one that was interrupted.",
    )
    imported.add_argument(
        "-n", "--namespace", action="append", required=True, metavar="NS", help="of the Jobs; may be repeated"
    )
    queues = imported.add_mutually_exclusive_group()
    queues.add_argument("--to-queue", metavar="Q", help="LocalQueue of all Jobs")
    queues.add_argument("--queuelabel", metavar="L", help="label of Jobs or their pods that decides about the queue")
    queues.add_argument("--queuemapping-file", metavar="F", help="rules as for Kueue's importer (match, toLocalQueue)")
    imported.add_argument("--queuemapping", metavar="V=Q,...", help="LocalQueue of each value of --queuelabel")
    imported.add_argument("--apply", action="store_true", help="make the changes (default: print them only)")
    imported.add_argument(
        "--timeout", type=span, default=30.0, metavar="TIME", help="wait for the next admission (default 30s)"
    )
    imported.add_argument("--qps", type=positive, default=50, metavar="N", help="requests per second (default 50)")
    imported.add_argument("--burst", type=positive, default=50, metavar="N", help="requests at once (default 50)")
    add_client_options(imported)


def add_installation_commands(commands: Commands) -> None:
    """Add the commands that install, upgrade and remove `sluice manager` on a cluster."""
    install = commands.add_parser(
        "install", help="print the manifests of an installation, for kubectl apply --server-side -f -"
    )
    install.add_argument(
        "--list-settings", action="store_true", help="print all settings with their defaults instead, for --values"
    )
    add_settings_options(install)

    upgrade = commands.add_parser("upgrade", help="compare the installation on a cluster with that of this version")
    upgrade.add_argument("--check", action="store_true", required=True, help="print what would change, change nothing")
    add_settings_options(upgrade)
    add_client_options(upgrade, OBJECT_NAME)

    uninstall = commands.add_parser(
        "uninstall",
        help="remove the installation from a cluster; running Jobs keep running, CRDs stay",
        epilog="Only objects with the label app.kubernetes.io/name=sluice are deleted, the namespace is not. It waits "
        "until every manager has ended, and then also removes the finalizers of objects whose CRD it deletes. CRDs "
        "that stay serve v1beta2 only, if a manager has to convert v1beta1. Run it after `helm uninstall`, too.",
    )
    uninstall.add_argument(
        "--namespace",
        type=namespace,
        metavar="NS",
        help="remove the installation in this namespace, nothing of others; needed if there are several (default: the "
        "only installation for the whole cluster, wherever it is; with Roles only, the one in kueue-system)",
    )
    uninstall.add_argument(
        "--namespaced",
        type=name_list,
        default=(),
        metavar="NS,...",
        help="the namespaces of an installation with --cluster-objects, if its Deployment, which names them, is gone",
    )
    uninstall.add_argument(
        "--crds", action="store_true", help="delete the CRDs as well, and with them all queues and Workloads"
    )
    uninstall.add_argument(
        "--timeout", type=span, default=180.0, metavar="TIME", help="for managers, then for CRDs, to end (default: 3m)"
    )
    uninstall.add_argument("--dry-run", action="store_true", help="print what would be deleted, delete nothing")
    add_client_options(uninstall, OBJECT_NAME)


def add_settings_options(command: argparse.ArgumentParser) -> None:
    """Add the settings of an installation, see `installation.settings`."""
    add_managers_namespace(command)
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="K=V",
        help="a setting, e.g. image.tag=v1 (all of them: sluice install --list-settings)",
    )
    command.add_argument("--values", action="append", default=[], metavar="F", help="a file with settings, as for Helm")
    command.add_argument(
        "--config", metavar="F", help="the KueueConfig: the same as managerConfig.controllerManagerConfigYaml"
    )
    command.add_argument("--without-crds", action="store_true", help="leave out the CustomResourceDefinitions")
    command.add_argument(
        "--namespaced",
        type=name_list,
        default=(),
        metavar="NS,...",
        help="manage only Jobs of these namespaces, with Roles in them; other kinds need ClusterRoles or "
        "--cluster-objects",
    )
    command.add_argument(
        "--cluster-objects",
        metavar="F",
        help="with --namespaced: the ClusterQueues, ResourceFlavors, Cohorts and priority classes of this file instead "
        "of the API server's, and Roles only: the same as clusterObjects",
    )
