"""Records Events about fields that are accepted and have no effect (`api.without_effect`).

One Event per generation of an object. Those of Jobs are recorded with their Workload (`jobs.controller`). A restart of
the manager records them again. BEHAVIOUR.md#q32-fields-without-effect.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from job_controller.model import Object, Pod
from job_controller.pod_facts import is_terminal
from queue_manager.api import event_reasons, keys, reasons
from queue_manager.api.api_resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, PODS, RESOURCE_FLAVORS, Resource
from queue_manager.api.types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from queue_manager.api.without_effect import without_effect
from queue_manager.engine.runtime import Runtime

O = TypeVar("O", bound=Object)  # noqa: E741 - O as in object


class WithoutEffectEvents:
    """Watches queues, flavors, Cohorts and single pods."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._recorder = runtime.recorder(event_reasons.WORKLOAD_COMPONENT)
        self._watch(CLUSTER_QUEUES, ClusterQueue)
        self._watch(COHORTS, Cohort)
        self._watch(LOCAL_QUEUES, LocalQueue)
        self._watch(RESOURCE_FLAVORS, ResourceFlavor)
        self._watch(PODS, Pod)

    def _watch(self, resource: Resource, type: type[O]) -> None:
        def changed(old: O | None, new: O | None) -> None:
            if new is not None and not _is_known(old, new) and not _is_of_no_interest(new):
                self._record(resource, new)

        self._runtime.cache(resource, type).subscribe(changed)

    def _record(self, resource: Resource, obj: Object) -> None:
        sentences = without_effect(str(resource), msgspec.to_builtins(obj))
        if sentences:
            self._recorder.event(obj, "Warning", reasons.FIELDS_WITHOUT_EFFECT, "; ".join(sentences))


def _is_known(old: Object | None, new: Object) -> bool:
    """Whether the spec was read in an earlier state. The labels of a pod are read when the pod appears."""
    return old is not None and old.metadata.generation == new.metadata.generation


def _is_of_no_interest(obj: Object) -> bool:
    """Whether to skip the object before it is converted to a tree, as most pods."""
    return isinstance(obj, Pod) and (keys.QUEUE_NAME not in obj.metadata.labels or is_terminal(obj))
