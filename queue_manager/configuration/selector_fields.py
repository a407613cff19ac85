"""Label selectors in the configuration, and the default for managedJobsNamespaceSelector (`outside`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_serializer

from job_controller.api_rules import label_selectors
from job_controller.json_tree import Json
from queue_manager.configuration.config_field_types import ConfigModel, List


class Requirement(ConfigModel):
    """A label key, an operator, and the values that it compares with."""

    key: str = ""
    """The label key."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = "Exists"
    """How to compare."""

    values: List[str] = ()
    """For In and NotIn."""


class LabelSelector(ConfigModel):
    """Selects objects that meet all requirements; empty selects everything."""

    match_labels: Mapping[str, str] = Field(default_factory=dict)
    """Labels that must have exactly these values."""

    match_expressions: List[Requirement] = ()
    """Requirements on label keys."""

    @model_serializer
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
        """Whether an object with these labels is selected."""
        return label_selectors.matches(self.tree(), labels)


def outside(*namespaces: str) -> LabelSelector:
    """Selects all namespaces but kube-system and these."""
    values = tuple(dict.fromkeys(("kube-system", *namespaces)))
    return LabelSelector(
        match_expressions=(Requirement(key="kubernetes.io/metadata.name", operator="NotIn", values=values),)
    )
