"""The kubeconfig of a local cluster: only its owner may read it, for the token in it is the key to the machine."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from queue_manager.local.server.http import BASIC_USER

NAME = "sluice"


def write_kubeconfig(path: Path, url: str, token: str) -> None:
    """Write the file anew with mode 0600; a reader sees the old one or the new one, never half.

    The token stands in it twice: kubectl sends a user's token only over TLS, but over plain HTTP on loopback
    it does send the credentials of the server's URL. Other clients take the user's token.
    """
    scheme, _, host = url.partition("://")
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": f"{scheme}://{BASIC_USER}:{token}@{host}"}}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yaml.safe_dump(tree, file, sort_keys=False)
    scratch.replace(path)
