"""The user who deactivated or reactivated a Workload, as `sluice` notes it in an annotation. Pure.

Kubernetes records which program changed a field, and not which user. The annotations `sluice/deactivated-by` and
`sluice/reactivated-by` are `<generation>:<user>`. The patch that changes spec.active also writes the annotation, with
the generation that the Workload gets by the patch. The annotation holds while the Workload has this generation: until
the next change of the spec, by whatever program. See BEHAVIOUR.md#q191-user-of-a-deactivation.
"""

from __future__ import annotations

from queue_manager.api import keys, messages
from queue_manager.api.types import Workload
from queue_manager.lifecycle.pod_causes import one_line


def note(workload: Workload, user: str) -> dict[str, str]:
    """Return the annotation to write with a change of spec.active: a deactivation if it is true, else a reactivation.

    Returns {} if the user is not known.
    """
    key = keys.DEACTIVATED_BY if workload.spec.active else keys.REACTIVATED_BY
    return {key: f"{workload.metadata.generation + 1}:{user}"} if user else {}


def deactivated_by(workload: Workload) -> str:
    """Return who deactivated an inactive Workload; "" if that is not known, or if it is active."""
    return "" if workload.spec.active else _user(workload, keys.DEACTIVATED_BY)


def reactivated_by(workload: Workload) -> str:
    """Return who reactivated an active Workload; "" if that is not known, or if its spec has changed since."""
    return _user(workload, keys.REACTIVATED_BY) if workload.spec.active else ""


def _user(workload: Workload, key: str) -> str:
    generation, _, user = workload.metadata.annotations.get(key, "").partition(":")
    return one_line(user) if generation == str(workload.metadata.generation) else ""


def message(workload: Workload, otherwise: str) -> str:
    """Return the message of a deactivation with the name of the user, or `otherwise` if that is not known."""
    user = deactivated_by(workload)
    return f"{messages.DEACTIVATED_MESSAGE} by {user}" if user else otherwise
