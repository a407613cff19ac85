"""The user who runs a command: the login name on this machine, or the user whom an API server authenticates."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import orjson

from queue_manager.api import keys
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from queue_manager.local.kubeconfig_file import is_of_local_cluster

_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def login_name() -> str:
    """Return the login name; "" for a UID without a name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def submitter(kubeconfig: Path) -> str:
    """Return whose Jobs a command creates on the cluster of one machine; "" on others, where the webhook writes it."""
    return login_name() if is_of_local_cluster(kubeconfig) else ""


def name_user(meta: dict[str, Any], user: str) -> None:
    """Annotate a Job with its user, unless it has that annotation or `user` is ""."""
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    well_formed = isinstance(labels, dict) and isinstance(annotations, dict)
    if user and well_formed and not labels.get(keys.USER):
        meta["annotations"] = {keys.USER: user, **annotations}


async def requester(client: RestClient, kubeconfig: Path) -> str:
    """Return the name by which others know the user: the login name on a cluster of `sluice up`, else that of the API
    server, or "" if the server does not return one.
    """
    if is_of_local_cluster(kubeconfig):
        return login_name()
    answer = await client.transport.request(Request("POST", _REVIEWS, body=orjson.dumps(_REVIEW)))
    if not answer.is_success:
        return ""
    user = (orjson.loads(answer.body).get("status") or {}).get("userInfo") or {}
    return str(user.get("username") or "")
