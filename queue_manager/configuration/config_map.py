"""The configuration inside a ConfigMap, as Kueue installs it and `kubectl get configmap -o yaml` prints it."""

from __future__ import annotations

import yaml

from queue_manager.configuration.yaml_places import Findings, compose, line_of
from queue_manager.kube_yaml import STR

KEY = "controller_manager_config.yaml"


def is_config_map(document: yaml.MappingNode) -> bool:
    """Whether the document is a ConfigMap, to be unwrapped first."""
    kind = _child(document, "kind")
    return isinstance(kind, yaml.ScalarNode) and kind.value == "ConfigMap"


def unwrap(document: yaml.MappingNode, findings: Findings) -> yaml.MappingNode | None:
    """The configuration document under KEY of the ConfigMap; None if the text is empty or invalid.

    Lines are those of the file if the text is a block scalar ("|"), else those of the text.
    """
    held = _child(_child(document, "data"), KEY)
    if not isinstance(held, yaml.ScalarNode) or held.tag != STR:
        findings.refuse(f"data[{KEY}]", "is missing; must be the text of a Configuration", line_of(document))
        return None
    if held.style == "|":
        return compose("\n" * line_of(held) + held.value, findings)
    findings.file = f"{findings.file} ({KEY})"
    return compose(held.value, findings)


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)
