"""Reading a configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from queue_manager.configuration.config_map import is_config_map, unwrap
from queue_manager.configuration.decode import given, read
from queue_manager.configuration.document import ConfigurationError, Findings, Problem, compose, line_of
from queue_manager.configuration.features import DISABLE_WAIT_FOR_PODS_READY
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.setting import DEFAULT_NAMESPACE, NO_PARALLEL_KINDS
from queue_manager.configuration.validation import validate
from queue_manager.configuration.versions import GROUP, INSTEAD, KIND, V1BETA1, V1BETA2, complete
from queue_manager.kube_yaml import NULL

SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
API_VERSIONS = {f"{GROUP}/{version}": version for version in (V1BETA2, V1BETA1)}


def load(path: str | Path) -> KueueConfig:
    """The effective configuration of a file. Raises ConfigurationError with everything that is wrong in it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except IsADirectoryError:
        raise ConfigurationError([Problem(str(path), 0, "", "is a directory; name a file")]) from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror}; name an existing file"
        raise ConfigurationError([Problem(str(path), 0, "", problem)]) from None
    except UnicodeDecodeError:
        raise ConfigurationError([Problem(str(path), 0, "", "not UTF-8 text; save it as UTF-8")]) from None
    return loads(text, str(path), own_namespace=own_namespace())


def loads(text: str, name: str = "configuration", *, own_namespace: str = DEFAULT_NAMESPACE) -> KueueConfig:
    """The effective configuration of a text, or of the one in a ConfigMap; `name` stands in the error messages."""
    findings = Findings(name, V1BETA2)
    document = compose(text, findings)
    if document is not None and is_config_map(document):
        document = unwrap(document, findings)
    findings.raise_if_any()
    values = {} if document is None else _values(document, findings)
    config = complete(values, findings, own_namespace)
    validate(config, findings)
    findings.raise_if_any()
    return config


def own_namespace() -> str:
    """The namespace of the pod that this process runs in, else Kueue's."""
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _values(document: yaml.MappingNode, findings: Findings) -> dict[str, Any]:
    """What the file says, by Python name. Sections that could not be read are left out."""
    _identify(document, findings)
    fields = [pair for pair in document.value if pair[0].value not in ("apiVersion", "kind")]
    dead = [pair for pair in fields if pair[0].value == "queueVisibility" and findings.version == V1BETA1]
    for key, section in dead:
        if section.tag != NULL:
            findings.ignored.append(f"{key.value}: it has no effect in Kueue either")
    rest = [pair for pair in fields if pair not in dead]
    body = yaml.MappingNode(document.tag, rest, document.start_mark, document.end_mark)
    values = given(body, KueueConfig, "", findings, INSTEAD)
    for i, framework in enumerate(values["integrations"].frameworks if "integrations" in values else ()):
        if framework != "batch/job":
            findings.ignored.append(f"integrations.frameworks[{i}] ({framework}): {NO_PARALLEL_KINDS}")
    for gate in values.get("feature_gates", ()):
        if gate != DISABLE_WAIT_FOR_PODS_READY:
            findings.ignored.append(f"featureGates[{gate}]: this gate does not switch anything in Sluice")
    return values


def _identify(document: yaml.MappingNode, findings: Findings) -> None:
    """The kind, and the version by which the rest is read; an unknown one is read as the newest."""
    wanted = {"apiVersion": tuple(API_VERSIONS), "kind": (KIND,)}
    for name, allowed in wanted.items():
        nodes = [(key, value) for key, value in document.value if key.value == name]
        must = " or ".join(f'"{value}"' for value in allowed)
        if not nodes:
            findings.refuse(name, f"is missing; must be {must}", line_of(document))
            continue
        if len(nodes) > 1:
            findings.refuse(name, f"given twice; line {line_of(nodes[0][0])} has it already", line_of(nodes[1][0]))
        text = read(nodes[0][1], str, name, findings)
        if text not in allowed and isinstance(nodes[0][1], yaml.ScalarNode):
            wrong = f'"{nodes[0][1].value}" is not a {KIND}{" version" if name == "apiVersion" else ""}'
            findings.refuse(name, f"{wrong}; must be {must}", line_of(nodes[0][1]))
        elif name == "apiVersion" and text in API_VERSIONS:
            findings.version = API_VERSIONS[text]
