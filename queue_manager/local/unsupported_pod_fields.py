"""Warnings about fields of a pod that the node agent does not implement.

Containers run as plain processes of this machine. A missing volume is noticed immediately. A liveness probe or hook
that is not run, or a capability that is not dropped, would only be noticed when it is needed; so each causes a warning
at creation.
"""

from __future__ import annotations

from collections.abc import Iterator

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.local.agent.limit_fields import limits_of
from queue_manager.local.server.admission_plugin_protocol import AdmissionReview

MOUNTS = "nothing is mounted here, commands see the files of this machine"
LIVENESS = "not run here, a container that hangs is not restarted"
PROBES = "only exec probes are run here, the container counts as ready when it runs"
STARTUP = "a container that never starts up is not restarted here, it stays unready"
HOOKS = "not called here"
RIGHTS = "has no effect here, commands run as the user who started the cluster"
ACCOUNT = "not looked up here, no token is mounted; a cluster refuses pods of a ServiceAccount that does not exist"
COMMAND = "a container without one does not start here, no image is pulled and the command runs as a local process"
CPU = "not enforced here, the container may use all cpus of this machine"
MESSAGES = "not read here, the message of a failed container is the end of its log"


class UnsupportedPodFields:
    """Admission plugin that only warns. Pods of controllers are skipped: the warning was given for their owner.

    `limits_cpu`: whether the node agent enforces limits.cpu on this machine.
    """

    def __init__(self, *, limits_cpu: bool = False) -> None:
        self._limits_cpu = limits_cpu

    def mutate(self, review: AdmissionReview) -> list[FieldError] | None:
        """See `AdmissionPlugin.mutate`; changes nothing."""
        return None

    def validate(self, review: AdmissionReview) -> list[FieldError]:
        """Add warnings for a Job, or a pod without an owner, that is created. Returns no errors."""
        if review.operation == "CREATE" and not review.subresource:
            if review.resource == JOBS:
                review.warnings.extend(self._warnings(review.object["spec"]["template"]["spec"], "spec.template.spec"))
            elif review.resource == PODS and not review.object["metadata"].get("ownerReferences"):
                review.warnings.extend(self._warnings(review.object["spec"], "spec"))
        return []

    def _warnings(self, spec: Json, path: str) -> list[str]:
        return warnings(spec, path, limits_cpu=self._limits_cpu)


def warnings(spec: Json, path: str, *, limits_cpu: bool = False) -> list[str]:
    """One warning for each kind of field, with the first path and the number of others. `spec` has its defaults."""
    places: dict[str, list[str]] = {}
    for place, why in _unsupported(spec, path):
        if why == CPU and limits_cpu:
            continue
        places.setdefault(why, []).append(place)
    return [f"{first}{f' and {len(others)} more' if others else ''}: {why}" for why, (first, *others) in places.items()]


def _unsupported(spec: Json, path: str) -> Iterator[tuple[str, str]]:
    if spec.get("volumes"):
        yield f"{path}.volumes", MOUNTS
    if spec.get("securityContext"):
        yield f"{path}.securityContext", RIGHTS
    if spec.get("serviceAccountName", "default") != "default":
        yield f"{path}.serviceAccountName", ACCOUNT
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            for field, why in _of_container(container):
                yield f"{path}.{group}[{index}].{field}", why


def _of_container(container: Json) -> Iterator[tuple[str, str]]:
    if not container.get("command"):
        yield "command", COMMAND
    if container.get("livenessProbe"):
        yield "livenessProbe", LIVENESS
    for probe in ("startupProbe", "readinessProbe"):
        if container.get(probe) and "exec" not in container[probe]:
            yield probe, PROBES
    if "exec" in (container.get("startupProbe") or {}):
        yield "startupProbe", STARTUP
    if container.get("lifecycle"):
        yield "lifecycle", HOOKS
    if container.get("securityContext"):
        yield "securityContext", RIGHTS
    if limits_of(container).cpu is not None:
        yield "resources.limits.cpu", CPU
    if container.get("terminationMessagePath") not in (None, "/dev/termination-log"):
        yield "terminationMessagePath", MESSAGES
