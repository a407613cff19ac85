"""Files that an admin writes: the configuration, a kubeconfig; and YAML as such."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import yaml

from queue_manager import kube_yaml
from queue_manager.configuration import ConfigurationError
from queue_manager.configuration.config_as_yaml import as_yaml
from queue_manager.configuration.loading import loads
from queue_manager.engine import kubeconfig
from queue_manager.lifecycle.workload_settings import settings_of
from tests.fuzz.target import Target, require_stable

MAX_VALUES = 10_000


def config() -> Target:
    def decode(head: str, body: bytes) -> None:
        first = loads(body.decode())
        settings_of(first)
        written = loads(as_yaml(first))
        given = {"visibility_server": first.visibility_server}  # v1beta2 cannot switch it off
        require_stable("the configuration", as_yaml(first), as_yaml(written.model_copy(update=given)))

    words = (
        "apiVersion: config.kueue.x-k8s.io/v1beta1\n",
        "waitForPodsReady:\n  ",
        "timeout: 1h",
        "? ",
        "- ",
        "!!int ",
        "&a ",
        "*a",
        "<<: ",
    )
    return Target(decode, (ConfigurationError, UnicodeDecodeError), tokens=words)


def kubeconfigs() -> Target:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-kubeconfig-"))
    file = folder / "config"

    def decode(head: str, body: bytes) -> None:
        file.write_bytes(body)
        kubeconfig.load(file)
        kubeconfig.namespace(file)

    words = (
        "users:\n- name: a\n  user: ",
        "certificate-authority-data: ",
        "exec: ",
        "tokenFile: ",
        "as: ",
        "proxy-url: ",
    )
    return Target(decode, (kubeconfig.KubeconfigError, OSError), tokens=words)


def yaml_documents() -> Target:
    """What kubectl and an API server read from YAML is JSON, so it reads the same from JSON."""

    def decode(head: str, body: bytes) -> None:
        tree = kube_yaml.load(body, MAX_VALUES)
        require_stable("the document", tree, kube_yaml.load(json.dumps(tree).encode(), 10 * MAX_VALUES))

    words = (
        "? ",
        "- ",
        "!!binary ",
        "!!float ",
        "&a ",
        "*a",
        "<<: ",
        "0x",
        "0o",
        "1e",
        "---\n",
        "|2-\n",
        ".inf",
        "{",
        "]",
    )
    refusals = (yaml.YAMLError, kube_yaml.TooManyValues, UnicodeDecodeError)
    return Target(decode, refusals, tokens=words)


TARGETS = {"config": config, "kubeconfig": kubeconfigs, "yaml": yaml_documents}
