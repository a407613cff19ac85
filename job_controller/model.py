"""Wire types: the fields of Job and Pod that decisions need, decoded directly from JSON.

Unknown fields are skipped while decoding, so a record stays small (well under 2 KB per pod) and fields of a newer API
server are ignored. Field names are those of the API in snake case; https://kubernetes.io/docs/reference describes them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, dataclass_transform

import msgspec

from job_controller import pod_phases


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all wire types: immutable, keyword-only, camelCase in JSON.

    Immutable records contain no reference cycles, so the garbage collector does not track them (gc=False).
    """


class Key(NamedTuple):
    """Namespace and name of an object; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(Record):
    """metav1.OwnerReference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False

    @property
    def is_job(self) -> bool:
        """Whether the owner is a Job of the API group batch; other groups have a kind Job too."""
        return self.kind == "Job" and self.api_version.partition("/")[0] == "batch"


class ObjectMeta(Record):
    """metav1.ObjectMeta."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with controller=true, None if absent (metav1.GetControllerOf)."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Object(Record):
    """The fields that every API object has."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Condition(Record):
    """batch/v1 JobCondition; also used for conditions of pods and nodes."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None

    @property
    def is_true(self) -> bool:
        """Whether the status is True."""
        return self.status == "True"


class LabelSelectorRequirement(Record):
    """metav1.LabelSelectorRequirement."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Record):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


# --- Job ---------------------------------------------------------------------------------------------------


class OnExitCodes(Record):
    """batch/v1 PodFailurePolicyOnExitCodesRequirement."""

    operator: str
    values: tuple[int, ...] = ()
    container_name: str | None = None


class OnPodCondition(Record):
    """batch/v1 PodFailurePolicyOnPodConditionsPattern."""

    type: str
    status: str = "True"


class PodFailurePolicyRule(Record):
    """batch/v1 PodFailurePolicyRule."""

    action: str
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(Record):
    """batch/v1 PodFailurePolicy. An API server stores an empty list of rules as null."""

    rules: tuple[PodFailurePolicyRule, ...] | None = ()


class SuccessPolicyRule(Record):
    """batch/v1 SuccessPolicyRule."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Record):
    """batch/v1 SuccessPolicy."""

    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(Record):
    """batch/v1 JobSpec. `template` stays JSON: pods are created from it, nothing decodes it."""

    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    ttl_seconds_after_finished: int | None = None
    pod_replacement_policy: str | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    managed_by: str | None = None
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}

    @property
    def pods_at_once(self) -> int:
        """parallelism, with the default of the API (1) if it is absent."""
        return 1 if self.parallelism is None else self.parallelism


class UncountedTerminatedPods(Record):
    """batch/v1 UncountedTerminatedPods: UIDs of finished pods that are not yet part of a counter."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Record):
    """batch/v1 JobStatus."""

    conditions: tuple[Condition, ...] = ()
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(Object):
    """batch/v1 Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


# --- Pod ---------------------------------------------------------------------------------------------------


class WaitingState(Record):
    """core/v1 ContainerStateWaiting."""

    reason: str = ""
    message: str = ""


class TerminatedState(Record):
    """core/v1 ContainerStateTerminated."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""  # the termination message: what the container left, or the end of its log
    finished_at: datetime | None = None


class ContainerState(Record):
    """core/v1 ContainerState. `running` is not read: it is the state that is neither of these."""

    waiting: WaitingState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(Record):
    """core/v1 ContainerStatus."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class ContainerSpec(Record):
    """core/v1 Container: the fields that decide whether an init container is a sidecar (restartPolicy Always)."""

    name: str = ""
    restart_policy: str | None = None


class PodSpec(Record):
    """core/v1 PodSpec."""

    node_name: str = ""
    init_containers: tuple[ContainerSpec, ...] = ()


class PodStatus(Record):
    """core/v1 PodStatus."""

    phase: str = pod_phases.PENDING
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether the phase is Failed, which is final."""
        return self.phase == pod_phases.FAILED

    @property
    def has_succeeded(self) -> bool:
        """Whether the phase is Succeeded, which is final."""
        return self.phase == pod_phases.SUCCEEDED


class Pod(Object):
    """core/v1 Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
