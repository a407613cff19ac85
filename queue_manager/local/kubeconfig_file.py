"""The kubeconfig of a local cluster. It contains the token: whoever can read the file is administrator of the
cluster.
"""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from queue_manager.local.private_files import write_private
from queue_manager.local.storage.data_directory import CERTIFICATE

NAME = "sluice"


def write_kubeconfig(path: Path, url: str, token: str, authority: str) -> None:
    """Write the kubeconfig with mode 0600. `authority` is the PEM of the CA that issued the server's certificate."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority.encode()).decode()}
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }
    write_private(path, yaml.safe_dump(tree, sort_keys=False))


def is_of_local_cluster(path: Path) -> bool:
    """Whether `sluice up` wrote this kubeconfig, which is the case if the server's certificate is beside it."""
    return (path.parent / CERTIFICATE).is_file()
