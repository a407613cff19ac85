"""What a pod was created for: its completion index, and the failure counts of that index
(BEHAVIOUR.md#b16-pod-identity).

Both are annotations, which anyone who may update pods can change. An index could then count as succeeded without having
run, or run twice. So an annotation counts as it was when this controller first saw the pod. Later changes are reported
and ignored.

    created by this process   the annotations that were sent in the create request
    first seen otherwise      (after a restart, from another controller, adopted) the index in the name, if the name has
                              the form that the Job gives its pods, because names are immutable. Otherwise the
                              annotation, and no index if the label with the same key disagrees. Failure counts are
                              stored nowhere else and are taken as they are

Only pods whose annotations differ from their identity are kept in memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from job_controller.labels import COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT
from job_controller.model import OwnerReference, Pod
from job_controller.pod_manifest import index_prefix

P = TypeVar("P", bound=Pod)

SUFFIX_LENGTH = 5  # random characters that the API server appends to generateName
_indexed_name = re.compile(r".*-(0|[1-9][0-9]{0,9})-", re.ASCII).fullmatch


class PodIdentity(NamedTuple):
    """The annotations that say what a pod was created for; None where one is absent."""

    completion_index: str | None
    failures: str | None
    ignored: str | None


KEYS = (COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT)


def of_annotations(annotations: Mapping[str, str]) -> PodIdentity:
    """The identity that the annotations state now."""
    get = annotations.get
    return PodIdentity(get(COMPLETION_INDEX), get(INDEX_FAILURE_COUNT), get(INDEX_IGNORED_FAILURE_COUNT))


def initial_identity(pod: Pod, job_name: str) -> PodIdentity:
    """The identity of a pod that this process has neither created nor seen before."""
    stated = of_annotations(pod.metadata.annotations)
    index = index_in_name(pod.metadata.name, job_name)
    if index is None and pod.metadata.labels.get(COMPLETION_INDEX, stated.completion_index) == stated.completion_index:
        index = stated.completion_index
    return stated if index == stated.completion_index else stated._replace(completion_index=index)


def index_in_name(pod_name: str, job_name: str) -> str | None:
    """The index in a pod name of the form `<job>-<index>-<random>`, None for other names."""
    stem = pod_name[:-SUFFIX_LENGTH]
    found = _indexed_name(stem)
    return found[1] if found is not None and stem == index_prefix(job_name, int(found[1])) else None


def with_initial_identity(pod: P, job_name: str) -> P:
    """The pod with the identity that a controller assumes which sees it for the first time."""
    identity = initial_identity(pod, job_name)
    return pod if identity == of_annotations(pod.metadata.annotations) else with_identity(pod, identity)


def with_identity(pod: P, identity: PodIdentity) -> P:
    """The pod with the annotations of this identity."""
    others = {key: text for key, text in pod.metadata.annotations.items() if key not in KEYS}
    own = {key: text for key, text in zip(KEYS, identity, strict=True) if text is not None}
    metadata = msgspec.structs.replace(pod.metadata, annotations=others | own)
    return msgspec.structs.replace(pod, metadata=metadata)


def mismatch_message(pod: Pod, identity: PodIdentity) -> str:
    """The Event message about annotations that differ from the identity."""
    stated = of_annotations(pod.metadata.annotations)
    changed = [
        f"metadata.annotations[{key}] is {_quoted(now)}, but {_quoted(true)} applies"
        for key, now, true in zip(KEYS, stated, identity, strict=True)
        if now != true
    ]
    return f"Pod {pod.metadata.name}: {'; '.join(changed)}"


def _quoted(text: str | None) -> str:
    return "none" if text is None else f'"{text}"'


class PodIdentities:
    """The identities of the pods of all Jobs.

    `pod_changed` must be called for every change before `restored` is called for the pods of that Job.
    """

    def __init__(self) -> None:
        self._altered: dict[str, dict[str, PodIdentity]] = {}  # identities by UID of the Job and of the pod

    def pod_changed(self, old: Pod | None, new: Pod | None) -> PodIdentity | None:
        """Handle a pod that was added (`old` is None), changed, or deleted (`new` is None).

        Returns its identity if this change made the annotations differ from it, None otherwise.
        """
        if old is not None and new is not None and _same(old, new):
            return None
        before, after = _job_of(old), _job_of(new)
        if old is not None and before is not None and (new is None or after is None or after.uid != before.uid):
            self._forget(before.uid, old.metadata.uid)
            before = None
        if new is None or after is None:
            return None
        if old is None or before is None:
            return self._note(after.uid, new, initial_identity(new, after.name))
        return self._note(after.uid, new, self._of(after.uid, old))

    def created(self, job_uid: str, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Record the identity of a created pod. `annotations`: of the create request; `pod`: its newest version."""
        self._note(job_uid, pod, of_annotations(annotations))

    def restored(self, job_uid: str, pods: Sequence[Pod]) -> Sequence[Pod]:
        """The pods of a Job with the annotations of their identity. O(1) if no annotation differs."""
        altered = self._altered.get(job_uid)
        if altered is None:
            return pods
        return [with_identity(pod, altered[pod.metadata.uid]) if pod.metadata.uid in altered else pod for pod in pods]

    def _of(self, job_uid: str, pod: Pod) -> PodIdentity:
        known = self._altered.get(job_uid, {}).get(pod.metadata.uid)
        return known if known is not None else of_annotations(pod.metadata.annotations)

    def _note(self, job_uid: str, pod: Pod, identity: PodIdentity) -> PodIdentity | None:
        uid, stated = pod.metadata.uid, of_annotations(pod.metadata.annotations)
        if stated == identity:
            self._forget(job_uid, uid)
            return None
        known = self._altered.setdefault(job_uid, {})
        is_new = uid not in known
        known[uid] = identity
        return identity if is_new else None

    def _forget(self, job_uid: str, uid: str) -> None:
        known = self._altered.get(job_uid)
        if known is not None and known.pop(uid, None) is not None and not known:
            del self._altered[job_uid]


def _same(old: Pod, new: Pod) -> bool:
    """Whether annotations and owners are unchanged, which is nearly always the case."""
    before, after = old.metadata, new.metadata
    return before.annotations == after.annotations and before.owner_references == after.owner_references


def _job_of(pod: Pod | None) -> OwnerReference | None:
    owner = pod.metadata.controller if pod is not None else None
    return owner if owner is not None and owner.kind == "Job" else None
