"""Label selectors in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from job_controller.api_rules import label_selectors
from job_controller.json_tree import Json
from queue_manager.configuration.setting import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A label key, the values it is compared with, and how."""

    key: str = setting("The label key.", "")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = setting("How to compare.", "Exists")
    values: tuple[str, ...] = setting("For In and NotIn.", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """Selects what meets all requirements; empty selects everything."""

    match_labels: Mapping[str, str] = field(
        default_factory=dict, metadata={"doc": "Labels that must have exactly these values."}
    )
    match_expressions: tuple[Requirement, ...] = setting("Requirements on label keys.", ())

    def tree(self) -> Json:
        """The selector as in an API object."""
        tree: dict[str, Any] = {}
        if self.match_labels:
            tree["matchLabels"] = dict(self.match_labels)
        if self.match_expressions:
            tree["matchExpressions"] = [
                {"key": r.key, "operator": r.operator, **({"values": list(r.values)} if r.values else {})}
                for r in self.match_expressions
            ]
        return tree

    def matches(self, labels: Mapping[str, str]) -> bool:
        return label_selectors.matches(self.tree(), labels)


def outside(namespace: str) -> LabelSelector:
    """All namespaces but the system's and our own."""
    values = tuple(dict.fromkeys(("kube-system", namespace)))
    return LabelSelector(
        match_expressions=(Requirement(key="kubernetes.io/metadata.name", operator="NotIn", values=values),)
    )
