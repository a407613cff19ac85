"""`helm test`: a pod that asks the installed Services, and succeeds if a manager answers through each of them."""

from __future__ import annotations

from queue_manager.installation import object_names
from queue_manager.installation.deployments import CONTAINER_SECURITY, IMAGE, POD_SECURITY
from queue_manager.installation.rbac_objects import CLUSTER_WIDE, QUEUE_RUNS, VISIBLE
from queue_manager.installation.template import NAMESPACE, Choice, Node, Setting, Template, Text, when

# The image has no shell. Both APIs answer 401 to a request without a token: that is an answer.
PROGRAM = """\
import ssl, sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    context = ssl._create_unverified_context()
    try:
        status = urllib.request.urlopen(url, timeout=10, context=context).status
    except urllib.error.HTTPError as error:
        status = error.code
    print(url, status)
    if status not in (200, 401):
        sys.exit(f"unexpected status {status}")
"""


def answer_check_templates() -> list[Template]:
    """Return the pod of `helm test`."""
    metrics = Choice(
        QUEUE_RUNS,
        _url("https", object_names.METRICS_SERVICE, object_names.METRICS_PORT, "/metrics"),
        _url("https", object_names.JOB_CONTROLLER_METRICS_SERVICE, object_names.METRICS_PORT, "/metrics"),
    )
    positions = _url("https", object_names.VISIBILITY_SERVICE, 443, "/apis/visibility.kueue.x-k8s.io/v1beta2")
    arguments: list[Node] = ["-c", PROGRAM, metrics, when(positions, *VISIBLE, QUEUE_RUNS)]
    return [when(_pod(arguments), CLUSTER_WIDE)]  # with Roles only, metrics are on loopback


def _pod(arguments: list[Node]) -> Node:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "sluice-test-answers",
            "namespace": NAMESPACE,
            "labels": object_names.ANSWER_CHECK_LABELS,
            "annotations": {
                "helm.sh/hook": "test",
                "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": POD_SECURITY,
            "imagePullSecrets": Setting("imagePullSecrets"),
            "containers": [
                {
                    "name": "test",
                    "image": IMAGE,
                    "imagePullPolicy": Setting("image.pullPolicy"),
                    "command": ["python", *arguments],
                    "securityContext": CONTAINER_SECURITY,
                }
            ],
        },
    }


def _url(scheme: str, service: str, port: int, path: str) -> Text:
    return Text(f"{scheme}://{service}.", NAMESPACE, f".svc:{port}{path}")
