"""Reading a configuration file.

The flow: YAML nodes (`yaml_places`, `config_map`), a plain tree with the place of every field (`yaml_tree`), pydantic's
validation (`kueue_config`, `value_errors`), defaults and differences of the versions (`version_defaults`), values that
depend on each other (`config_validation`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import yaml

from queue_manager.configuration.config_field_types import DEFAULT_NAMESPACE, V1BETA2
from queue_manager.configuration.config_map import is_config_map, unwrap
from queue_manager.configuration.config_validation import validate
from queue_manager.configuration.feature_gates import DISABLE_WAIT_FOR_PODS_READY
from queue_manager.configuration.kueue_config import OTHER_KINDS, KueueConfig
from queue_manager.configuration.quoted_text import quoted
from queue_manager.configuration.value_errors import is_beyond, report, validated
from queue_manager.configuration.version_defaults import (
    API_VERSIONS,
    BOUND_WHILE_ENABLED,
    KIND,
    complete,
    waits_for_pods_ready,
)
from queue_manager.configuration.yaml_places import (
    ConfigurationError,
    ConfigurationProblem,
    Findings,
    compose,
    line_of,
    shown,
)
from queue_manager.configuration.yaml_tree import read_section

SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def load(path: str | Path, namespaces: Collection[str] = ()) -> KueueConfig:
    """The effective configuration of a file. Raises ConfigurationError with all problems of the file.

    `namespaces`: the only ones that the process manages, if it is limited to some. Without managedJobsNamespaceSelector
    they are all selected, even the namespace of the process itself.
    """
    return loads(read_text(path), str(path), own_namespace=own_namespace(), namespaces=namespaces)


def read_text(path: str | Path) -> str:
    """The text of a file, read once: it may be a pipe. Raises ConfigurationError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except IsADirectoryError:
        raise ConfigurationError([ConfigurationProblem(str(path), 0, "", "is a directory; name a file")]) from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror}; name an existing file"
        raise ConfigurationError([ConfigurationProblem(str(path), 0, "", problem)]) from None
    except UnicodeDecodeError:
        raise ConfigurationError([ConfigurationProblem(str(path), 0, "", "not UTF-8 text; save it as UTF-8")]) from None


def load_or_default(
    path: str | None, report_ignored: Callable[[str], None], namespaces: Collection[str] = ()
) -> KueueConfig:
    """The configuration of a file, or the defaults without one. `report_ignored` gets each field without effect.

    `namespaces`: see `load`. Raises ConfigurationError.
    """
    if path is None:
        return KueueConfig()
    config = load(path, namespaces)
    for field in config.ignored:
        report_ignored(field)
    return config


def loads(
    text: str,
    name: str = "configuration",
    *,
    own_namespace: str = DEFAULT_NAMESPACE,
    namespaces: Collection[str] = (),
) -> KueueConfig:
    """The effective configuration of a text, or of the one in a ConfigMap; `name` is the file in error messages.

    `namespaces`: see `load`.
    """
    findings = Findings(name, V1BETA2)
    document = compose(text, findings)
    if document is not None and is_config_map(document):
        document = unwrap(document, findings)
    findings.raise_if_any()
    written = KueueConfig() if document is None else _written(document, findings)
    config = complete(written, findings, own_namespace, namespaces)
    validate(config, findings, namespaces)
    findings.raise_if_any()
    return config


def own_namespace() -> str:
    """The namespace of the pod that this process runs in; outside of a pod kueue-system."""
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _written(document: yaml.MappingNode, findings: Findings) -> KueueConfig:
    """The configuration that the file contains, with defaults for absent and for rejected values."""
    _identify(document, findings)
    body = [pair for pair in document.value if pair[0].value not in ("apiVersion", "kind")]
    fields = yaml.MappingNode(document.tag, body, document.start_mark, document.end_mark)
    config, mistakes = validated(read_section(fields, KueueConfig, "", findings), findings)
    enable_unread = any(mistake.path == "waitForPodsReady.enable" for mistake in mistakes)
    waiting = waits_for_pods_ready(config, findings.version, unread=enable_unread)
    for mistake in mistakes:
        if waiting or mistake.path not in BOUND_WHILE_ENABLED or not is_beyond(mistake, findings):
            report(mistake, findings)
    findings.sort()
    for i, framework in enumerate(config.integrations.frameworks):
        if framework != "batch/job":
            findings.ignored.append(f"integrations.frameworks[{i}] ({framework}): {OTHER_KINDS.why}")
    for gate in config.feature_gates:
        if gate != DISABLE_WAIT_FOR_PODS_READY:
            findings.ignored.append(f"featureGates[{gate}]: this gate does not switch anything in Sluice")
    return config


def _identify(document: yaml.MappingNode, findings: Findings) -> None:
    """Set the version by which the file is read, and check the kind; an unknown version is read as the newest."""
    wanted = {"apiVersion": tuple(API_VERSIONS), "kind": (KIND,)}
    for name, allowed in wanted.items():
        nodes = [(key, value) for key, value in document.value if key.value == name]
        must = " or ".join(f'"{value}"' for value in allowed)
        if not nodes:
            findings.refuse(name, f"is missing; must be {must}", line_of(document))
            continue
        if len(nodes) > 1:
            findings.refuse(name, f"duplicate key; first given in line {line_of(nodes[0][0])}", line_of(nodes[1][0]))
        _, node = nodes[0]
        text = node.value if isinstance(node, yaml.ScalarNode) else ""
        if not isinstance(node, yaml.ScalarNode):
            findings.refuse(name, f"{shown(node)}; must be a string", line_of(node))
        elif text not in allowed:
            wrong = f"{quoted(text)} is not a {KIND}{' version' if name == 'apiVersion' else ''}"
            findings.refuse(name, f"{wrong}; must be {must}", line_of(node))
        elif name == "apiVersion":
            findings.version = API_VERSIONS[text]
