"""The command `manager`."""

from __future__ import annotations

from queue_manager.cli.arguments.argument_types import controllers, port
from queue_manager.cli.arguments.shared_options import Commands
from queue_manager.cli.logging_options import add_log_options, add_zap_options
from queue_manager.operator.required_permissions import ALL


def add_manager(commands: Commands) -> None:
    """Add the command that runs the controllers against a cluster."""
    manager = commands.add_parser("manager", help="run the queue and the Job controller against a Kubernetes cluster")
    manager.add_argument(
        "--kubeconfig", metavar="F", help="default: the service account in a pod, else $KUBECONFIG, else kubectl's"
    )
    manager.add_argument("--context", metavar="C", help="context of the kubeconfig")
    manager.add_argument("--config", metavar="F", help="a KueueConfig")
    manager.add_argument(
        "--controllers",
        type=controllers,
        default=ALL,
        metavar="A,B",
        help=f"which to run (default: {','.join(ALL)})",
    )
    manager.add_argument(
        "--namespace",
        action="append",
        default=[],
        metavar="NS",
        help="manage only Jobs of this namespace, with rights in it; may be given several times (default: all)",
    )
    manager.add_argument(
        "--cluster-objects",
        metavar="PATH",
        help="with --namespace: take ClusterQueues, Cohorts, ResourceFlavors and priority classes from this file or "
        "folder instead of the API server; then Roles in these namespaces are enough",
    )
    manager.add_argument(
        "--lease", metavar="NAME", help="name of the Lease for leader election (default: as the KueueConfig says)"
    )
    manager.add_argument(
        "--metrics-port",
        type=port,
        metavar="P",
        help="serve /healthz, /readyz and /metrics on loopback, 0: on any port (default: as the KueueConfig says)",
    )
    manager.add_argument(
        "--visibility-port",
        type=port,
        metavar="P",
        help="serve the visibility API over TLS on loopback, 0: on any port (default: as the KueueConfig says; with "
        "--metrics-port: not)",
    )
    manager.add_argument(
        "--webhook-port",
        type=port,
        metavar="P",
        help="serve the admission webhooks over TLS on loopback, 0: on any port (default: as the KueueConfig says; "
        "with --metrics-port: not)",
    )
    manager.add_argument("--no-webhooks", action="store_true", help="serve no admission webhooks")
    add_log_options(manager, "info")
    add_zap_options(manager)
