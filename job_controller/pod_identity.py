"""What a pod was created for: its completion index, and how many pods of that index failed before it.

Both stand in annotations of the pod, and whoever may update pods can change them. An index could then succeed that
never ran, and another one run twice. So an annotation counts as it was when this controller saw the pod first; what
is written there later is reported and changes nothing.

    created here        the pod has what it was created with
    seen first later    (after a restart of the controller, taken over from another one, or adopted) a name of the form
                        that the Job gives its pods tells the index, for a name cannot be changed. Under any other name
                        the annotation tells it, and there is no index if the label of the same key disagrees. Counts
                        of failures stand nowhere else, and are taken as they are

Only pods whose annotations say something else than that are remembered.
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

SUFFIX_LENGTH = 5  # random characters behind a generateName
_indexed_name = re.compile(r".*-(0|[1-9][0-9]{0,9})-", re.ASCII).fullmatch


class Identity(NamedTuple):
    """The annotations of a pod that say what it was created for; None where one is absent."""

    completion_index: str | None
    failures: str | None
    ignored: str | None


KEYS = (COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT)


def of_annotations(annotations: Mapping[str, str]) -> Identity:
    """What the annotations say now."""
    get = annotations.get
    return Identity(get(COMPLETION_INDEX), get(INDEX_FAILURE_COUNT), get(INDEX_IGNORED_FAILURE_COUNT))


def at_first_sight(pod: Pod, job_name: str) -> Identity:
    """What counts of a pod that this controller has not created, or has forgotten since."""
    stated = of_annotations(pod.metadata.annotations)
    index = index_in_name(pod.metadata.name, job_name)
    if index is None and pod.metadata.labels.get(COMPLETION_INDEX, stated.completion_index) == stated.completion_index:
        index = stated.completion_index
    return stated if index == stated.completion_index else stated._replace(completion_index=index)


def index_in_name(pod_name: str, job_name: str) -> str | None:
    """The index in a name that the Job gives its pods, `<job>-<index>-<random>`; None if it is no such name."""
    stem = pod_name[:-SUFFIX_LENGTH]
    found = _indexed_name(stem)
    return found[1] if found is not None and stem == index_prefix(job_name, int(found[1])) else None


def believed(pod: P, job_name: str) -> P:
    """The pod as a controller takes it that has not seen it before."""
    identity = at_first_sight(pod, job_name)
    return pod if identity == of_annotations(pod.metadata.annotations) else with_identity(pod, identity)


def with_identity(pod: P, identity: Identity) -> P:
    """The pod with the annotations of this identity."""
    others = {key: text for key, text in pod.metadata.annotations.items() if key not in KEYS}
    own = {key: text for key, text in zip(KEYS, identity, strict=True) if text is not None}
    metadata = msgspec.structs.replace(pod.metadata, annotations=others | own)
    return msgspec.structs.replace(pod, metadata=metadata)


def disagreement(pod: Pod, identity: Identity) -> str:
    """The message about annotations of the pod that do not say what it was created for."""
    stated = of_annotations(pod.metadata.annotations)
    changed = [
        f"metadata.annotations[{key}] says {_quoted(now)}, and counts as {_quoted(true)}"
        for key, now, true in zip(KEYS, stated, identity, strict=True)
        if now != true
    ]
    return f"Pod {pod.metadata.name}: {'; '.join(changed)}"


def _quoted(text: str | None) -> str:
    return "nothing" if text is None else f'"{text}"'


class Identities:
    """The identities of pods of Jobs. `pod_changed` must be called with every change before the pods are asked for."""

    def __init__(self) -> None:
        self._altered: dict[str, dict[str, Identity]] = {}  # by UID of the Job and of the pod; true identities

    def pod_changed(self, old: Pod | None, new: Pod | None) -> Identity | None:
        """Take note of a pod that was added (no old), changed, or deleted (no new). Returns its identity if the
        annotations have just begun to say something else."""
        if old is not None and new is not None and _same(old, new):
            return None
        before, after = _job_of(old), _job_of(new)
        if old is not None and before is not None and (new is None or after is None or after.uid != before.uid):
            self._forget(before.uid, old.metadata.uid)
            before = None
        if new is None or after is None:
            return None
        if old is None or before is None:
            return self._note(after.uid, new, at_first_sight(new, after.name))
        return self._note(after.uid, new, self._of(after.uid, old))

    def created(self, job_uid: str, pod: Pod, annotations: Mapping[str, str]) -> None:
        """Take note of a pod, as it is now, that was created with these annotations."""
        self._note(job_uid, pod, of_annotations(annotations))

    def restored(self, job_uid: str, pods: Sequence[Pod]) -> Sequence[Pod]:
        """The pods of a Job, with annotations that tell the truth. O(1) if nobody has changed any."""
        altered = self._altered.get(job_uid)
        if altered is None:
            return pods
        return [with_identity(pod, altered[pod.metadata.uid]) if pod.metadata.uid in altered else pod for pod in pods]

    def _of(self, job_uid: str, pod: Pod) -> Identity:
        known = self._altered.get(job_uid, {}).get(pod.metadata.uid)
        return known if known is not None else of_annotations(pod.metadata.annotations)

    def _note(self, job_uid: str, pod: Pod, identity: Identity) -> Identity | None:
        uid, stated = pod.metadata.uid, of_annotations(pod.metadata.annotations)
        if stated == identity:
            self._forget(job_uid, uid)
            return None
        known = self._altered.setdefault(job_uid, {})
        is_news = uid not in known
        known[uid] = identity
        return identity if is_news else None

    def _forget(self, job_uid: str, uid: str) -> None:
        known = self._altered.get(job_uid)
        if known is not None and known.pop(uid, None) is not None and not known:
            del self._altered[job_uid]


def _same(old: Pod, new: Pod) -> bool:
    """Nearly always."""
    before, after = old.metadata, new.metadata
    return before.annotations == after.annotations and before.owner_references == after.owner_references


def _job_of(pod: Pod | None) -> OwnerReference | None:
    owner = pod.metadata.controller if pod is not None else None
    return owner if owner is not None and owner.kind == "Job" else None
