"""Virtual resources for questions about the caller: SelfSubjectReview and the access and rules reviews.

The holder of the token may do everything; these resources let `kubectl auth can-i` and `kubectl auth whoami` say so.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from queue_manager.local.server.http_messages import PROTOBUF, ServerRequest, media_type
from queue_manager.local.server.request_bodies import read_body
from queue_manager.local.server.request_info import CallTarget

KINDS = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "subjectaccessreviews": "SubjectAccessReview",
    "localsubjectaccessreviews": "LocalSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    "selfsubjectreviews": "SelfSubjectReview",
}
ACCESS = ("selfsubjectaccessreviews", "subjectaccessreviews", "localsubjectaccessreviews")
GROUPS = ["system:masters", "system:authenticated"]


def review(target: CallTarget, request: ServerRequest) -> Json | None:
    """Return the response to a POST, or None if the target is another resource. Raises 400, 413, 415."""
    match target.group, target.plural:
        case "authorization.k8s.io", plural if plural in ACCESS:
            status: Json = {"allowed": True, "reason": "the token of this server may do everything"}
        case "authorization.k8s.io", "selfsubjectrulesreviews":
            rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            other = {"verbs": ["*"], "nonResourceURLs": ["*"]}
            status = {"resourceRules": [rule], "nonResourceRules": [other], "incomplete": False}
        case "authentication.k8s.io", "selfsubjectreviews":
            status = {"userInfo": {"username": request.user, "groups": GROUPS}}
        case _:
            return None
    # kubectl sends protobuf, which is not decoded: the answer does not depend on the body.
    body = read_body(request) if request.body and media_type(request) != PROTOBUF else {}
    named = {"kind": KINDS[target.plural], "apiVersion": f"{target.group}/{target.version}"}
    return body | named | {"metadata": body.get("metadata") or {"creationTimestamp": None}, "status": status}
