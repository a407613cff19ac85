"""What commands answer to people who have just the installed roles."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.control_plane.conftest import ROOT, SLUICE, kubectl
from tests.control_plane.install.conftest import apply
from tests.control_plane.manager.service_account import write_kubeconfig
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

NAMESPACE = "default"


@pytest.mark.parametrize("options", [(), ("-f",)], ids=["once", "following"])
def test_logs_name_the_missing_right_to_list_pods(
    cluster: ControlPlane, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """A Job has pods although they may not be seen, so the missing right is named."""
    apply(cluster)
    name = f"limited-{len(options)}"
    kubectl(cluster, "-n", NAMESPACE, "create", "serviceaccount", name)
    subject = f"--serviceaccount={NAMESPACE}:{name}"
    for role in ("kueue-job-editor-role", "kueue-workload-viewer-role"):  # no controller aggregates roles here
        kubectl(cluster, "-n", NAMESPACE, "create", "rolebinding", f"{name}-{role}", f"--clusterrole={role}", subject)
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": pod}}}
    kubectl(cluster, "-n", NAMESPACE, "create", "-f", "-", stdin=json.dumps(job).encode())
    token = {"token": kubectl(cluster, "-n", NAMESPACE, "create", "token", name).strip()}
    user = write_kubeconfig(tmp_path / "user", cluster.url, token, cluster)
    command = [*SLUICE, "logs", name, *options, "--kubeconfig", str(user)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3
    assert 'cannot list resource "pods"' in done.stderr
