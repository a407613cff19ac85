"""Fields of a KueueConfig that must fit the objects of an installation: ports, and the certificates of the webhooks.

The Services, probes, rights and volumes of an installation are the same for each configuration, in a Helm chart too. A
configuration with another port would be served where no Service leads, so it is refused.
BEHAVIOUR.md#q216-fixed-fields-of-an-installation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import yaml
from pydantic.alias_generators import to_camel

from queue_manager.api import component_names
from queue_manager.configuration.addresses import OFF, parse
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.yaml_places import ConfigurationProblem, Findings, compose, line_of
from queue_manager.installation.object_names import HEALTH_PORT, METRICS_PORT, VISIBILITY_PORT, WEBHOOK_PORT

Test = Callable[[object], bool]


class _Fixed(NamedTuple):
    """A field: where it is, which values fit, and what these are in words."""

    section: str
    field: str
    fits: Test
    wanted: str

    @property
    def path(self) -> str:
        return f"{to_camel(self.section)}.{to_camel(self.field)}"

    def value(self, config: KueueConfig) -> object:
        """What the configuration says; None without that section."""
        section = getattr(config, self.section)
        return getattr(section, self.field) if section is not None else None


def _has_port(port: int) -> Test:
    return lambda address: address not in OFF and parse(str(address)).port == port


def _is(*values: object) -> Test:
    return lambda value: value in values


def _is_metrics_address(address: object) -> bool:
    return address in OFF or parse(str(address)).is_loopback or _has_port(METRICS_PORT)(address)


CERTIFICATES = "internal_cert_management"
MOUNTED = "true, because it mounts no Secret with certificates of another issuer"
SERVICE, SECRET = component_names.WEBHOOK_SERVICE, component_names.WEBHOOK_SECRET
FIXED = (
    _Fixed("health", "health_probe_bind_address", _has_port(HEALTH_PORT), f"port {HEALTH_PORT}"),
    _Fixed("health", "readiness_endpoint_name", _is("readyz"), "readyz"),
    _Fixed("health", "liveness_endpoint_name", _is("healthz"), "healthz"),
    _Fixed("metrics", "bind_address", _is_metrics_address, f'port {METRICS_PORT}, or "0" for no metrics'),
    _Fixed("webhook", "port", _is(0, WEBHOOK_PORT), f"port {WEBHOOK_PORT}"),
    _Fixed("visibility_server", "bind_port", _is(None, VISIBILITY_PORT), f"port {VISIBILITY_PORT}"),
    _Fixed(CERTIFICATES, "enable", _is(True), MOUNTED),
    _Fixed(CERTIFICATES, "webhook_service_name", _is(SERVICE), SERVICE),
    _Fixed(CERTIFICATES, "webhook_secret_name", _is(SECRET), SECRET),
)


def misfits(config: KueueConfig, text: str, name: str) -> list[ConfigurationProblem]:
    """Return a problem for each field that does not fit an installation. `text`, `name`: the file of `config`."""
    document = compose(text, Findings(name))
    return [
        ConfigurationProblem(
            name, _line(document, each.path), each.path, f"{_shown(value)}; an installation has {each.wanted}"
        )
        for each in FIXED
        if not each.fits(value := each.value(config))
    ]


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _line(document: yaml.Node | None, path: str) -> int:
    """Return the line of a field of the document; 0 if it is not there, as in a ConfigMap."""
    keys = list(_keys(document, path.split(".")))
    return line_of(keys[-1]) if len(keys) == path.count(".") + 1 else 0


def _keys(node: yaml.Node | None, names: list[str]) -> Iterator[yaml.Node]:
    for name in names:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key, value) for key, value in pairs if key.value == name), None)
        if found is None:
            return
        yield found[0]
        node = found[1]
