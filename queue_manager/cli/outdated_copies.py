"""Whether the saved copy of Kueue's objects is that of the Kueue on the cluster now. Pure.

`sluice adopt --apply` may be interrupted and repeated; meanwhile objects are gone, scaled to 0, or Sluice's (those are
not passed). Such differences mean that the copy is still the one to restore. Any other means that Kueue was changed
after the copy was written, for example after `sluice adopt --undo`: a restoration would bring an outdated Kueue.
BEHAVIOUR.md#q244-the-copy-of-another-kueue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from job_controller.json_tree import Json
from queue_manager.adoption.kueue_installation import DEPLOYMENTS, INSTALLED_KINDS, LAST_APPLIED
from queue_manager.api.api_resources import CRDS, NAMESPACES
from queue_manager.installation.objects import NAMESPACE_LABELS
from queue_manager.installation.upgrade_changes import FieldChange, changes

# Written by kubectl and the Deployment controller with each change; they restore nothing.
UNCOMPARED_ANNOTATIONS = (LAST_APPLIED, "deployment.kubernetes.io/revision")
UNCOMPARED = tuple(f"metadata.annotations.{name}" for name in UNCOMPARED_ANNOTATIONS)
CA_BUNDLE = "caBundle"  # written by Kueue's manager or cert-manager whenever the certificate is new
RESTORED_LABELS = tuple(f"metadata.labels.{name}" for name in NAMESPACE_LABELS)


def first_difference(saved: Sequence[Json], live: Sequence[Json]) -> str:
    """Return an object and a field in which the copy is not of the live Kueue; "" if it is its copy."""
    known = {_key(tree): tree for tree in saved}
    for tree in live:
        copy = known.get(_key(tree))
        if copy is None:
            return f"{_name(tree)} is not in it"
        if change := next(_unexplained(copy, tree), None):
            return f"{_name(tree)}: {_text(change)}"
    return ""


def taken_away(saved: Sequence[Json], live: Sequence[Json]) -> str:
    """Return an object that an unfinished adoption has deleted or scaled to 0; "" if none has begun."""
    present = {_key(tree): tree for tree in live}
    kinds = {resource.kind for resource in INSTALLED_KINDS}
    for copy in (tree for tree in saved if tree["kind"] in kinds):
        tree = present.get(_key(copy))
        if tree is None or any(_is_scaled_down(copy, change) for change in changes(copy, tree)):
            return _name(copy)
    return ""


def _unexplained(copy: Json, live: Json) -> Iterator[FieldChange]:
    """Yield the changes of a live object that neither an adoption nor a controller makes."""
    for change in changes(copy, live):
        path = change.path
        if path in UNCOMPARED or path.endswith(CA_BUNDLE) or _is_scaled_down(copy, change):
            continue
        if copy["kind"] == NAMESPACES.kind and path not in RESTORED_LABELS:
            continue
        if _is_end_of_conversion(live, path) or _is_aggregated(live, path):
            continue
        yield change


def _is_scaled_down(copy: Json, change: FieldChange) -> bool:
    return bool(copy["kind"] == DEPLOYMENTS.kind and change.path == "spec.replicas" and change.new == 0)


def _is_end_of_conversion(live: Json, path: str) -> bool:
    if live["kind"] != CRDS.kind or not path.startswith("spec.conversion"):
        return False
    return bool((live["spec"].get("conversion") or {}).get("strategy") == "None")


def _is_aggregated(live: Json, path: str) -> bool:
    """Whether a controller writes this field, from the rules of other ClusterRoles."""
    return "aggregationRule" in live and path.startswith("rules")


def _text(change: FieldChange) -> str:
    """Return the change; of a text with several lines the first line that differs."""
    if isinstance(change.old, str) and isinstance(change.new, str) and "\n" in change.old + change.new:
        lines = zip_longest(change.old.splitlines(), change.new.splitlines())
        for number, (old, new) in enumerate(lines, 1):
            if old != new:
                return str(FieldChange(f"{change.path}, line {number}", old, new))
    return str(change)


def _key(tree: Json) -> tuple[str, str, str]:
    meta = tree["metadata"]
    return tree["kind"], str(meta.get("namespace") or ""), str(meta["name"])


def _name(tree: Json) -> str:
    kind, namespace, name = _key(tree)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
