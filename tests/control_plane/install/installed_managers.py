"""`sluice install` on the real server, and the managers of the installed Deployments as processes of this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from tests.control_plane.conftest import kubectl, until_served
from tests.control_plane.install.conftest import sluice
from tests.control_plane.manager.process import Manager
from tests.control_plane.manager.service_account import write_kubeconfig
from tests.control_plane.server import ControlPlane

SYSTEM = "kueue-system"


def installed(cluster: ControlPlane, *settings: str, flags: Sequence[str] = ()) -> list[str]:
    """Install with these settings (PATH=VALUE) and flags, and return the names of the Deployments."""
    for kind in ("deployments", "clusterrolebindings", "rolebindings"):  # of an earlier installation
        kubectl(cluster, "delete", kind, "-A", "-l", "app.kubernetes.io/name=sluice")
    chosen = [part for setting in settings for part in ("--set", setting)]
    kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=sluice("install", *flags, *chosen).encode())
    until_served(cluster)
    return kubectl(cluster, "-n", SYSTEM, "get", "deployments", "-o", "jsonpath={.items[*].metadata.name}").split()


async def start(
    cluster: ControlPlane,
    deployment: str,
    folder: Path,
    changed: Mapping[str, Any] = MappingProxyType({}),
    *,
    url: str = "",
    ports: Sequence[str] = ("--metrics-port", "0"),
    namespace: str = SYSTEM,
    until: str | tuple[str, ...] = "ready",
) -> Manager:
    """Start the manager of a Deployment as its pod would, with a token of its service account.

    `changed`: parts of the configuration that differ from the installed one. `url`: of a proxy of the API server.
    `ports`, `until`: as in `Manager.start`. `namespace`: that of the installation.
    """
    folder.mkdir()
    tree = json.loads(kubectl(cluster, "-n", namespace, "get", "deployment", deployment, "-o", "json"))
    pod = tree["spec"]["template"]["spec"]
    token = kubectl(cluster, "-n", namespace, "create", "token", pod["serviceAccountName"]).strip()
    trusted = None if url else cluster
    kubeconfig = write_kubeconfig(folder / "kubeconfig", url or cluster.url, {"token": token}, trusted)
    config = yaml.safe_load(config_map(cluster, namespace, "kueue-manager-config")["controller_manager_config.yaml"])
    config["leaderElection"]["resourceNamespace"] = config["namespace"] = namespace  # of a pod, by default
    command, *arguments = pod["containers"][0]["args"]
    assert command == "manager"
    flags = [flag for flag in arguments if not flag.startswith(("--config=", "--cluster-objects="))]
    flags.append("--log-format=text")  # in which it announces on stdout that it is ready
    if len(arguments) - len(flags) == 1:  # the volume that is mounted in the pod
        mounted = folder / "cluster-objects"
        mounted.mkdir()
        for name, text in config_map(cluster, namespace, "sluice-cluster-objects").items():
            (mounted / name).write_text(text)
        flags.append(f"--cluster-objects={mounted}")
    return await Manager.start(
        kubeconfig, *flags, config=yaml.safe_dump({**config, **changed}), ports=ports, until=until
    )


def config_map(cluster: ControlPlane, namespace: str, name: str) -> dict[str, str]:
    data: dict[str, str] = json.loads(kubectl(cluster, "-n", namespace, "get", "configmap", name, "-o", "json"))["data"]
    return data
