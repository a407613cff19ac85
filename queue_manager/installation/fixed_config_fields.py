"""Fields of a KueueConfig that must fit the objects of an installation: ports, and the certificates of the webhooks.

The Services, probes, rights and volumes of an installation are the same for each configuration, in a Helm chart too. A
configuration with another port would be served where no Service leads, so it is refused.
BEHAVIOUR.md#q216-fixed-fields-of-an-installation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import yaml
from pydantic.alias_generators import to_camel

from queue_manager.api import component_names
from queue_manager.configuration.addresses import OFF, parse
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.webhook_and_tls_sections import CERTIFICATE_FOLDER
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
ADDED = "internalCertManagement:\n  enable: false\n"  # with certificates of another issuer
MANAGED = "true, because certificates.source is Managed"
MOUNTED = "false with certificates.source {}; leave the section out, and the installation adds that"
NOT_ADDED = "cannot be added to this text; add `internalCertManagement: {enable: false}`"
SERVICE, SECRET = component_names.WEBHOOK_SERVICE, component_names.WEBHOOK_SECRET
FIXED = (
    _Fixed("health", "health_probe_bind_address", _has_port(HEALTH_PORT), f"port {HEALTH_PORT}"),
    _Fixed("health", "readiness_endpoint_name", _is("readyz"), "readyz"),
    _Fixed("health", "liveness_endpoint_name", _is("healthz"), "healthz"),
    _Fixed("metrics", "bind_address", _is_metrics_address, f'port {METRICS_PORT}, or "0" for no metrics'),
    _Fixed("webhook", "port", _is(0, WEBHOOK_PORT), f"port {WEBHOOK_PORT}"),
    _Fixed("visibility_server", "bind_port", _is(None, VISIBILITY_PORT), f"port {VISIBILITY_PORT}"),
)
OWN_CERTIFICATES = (
    _Fixed(CERTIFICATES, "enable", _is(True), MANAGED),
    _Fixed(CERTIFICATES, "webhook_service_name", _is(SERVICE), SERVICE),
    _Fixed(CERTIFICATES, "webhook_secret_name", _is(SECRET), SECRET),
)
MOUNTED_CERTIFICATES = (_Fixed("webhook", "cert_dir", _is(CERTIFICATE_FOLDER), CERTIFICATE_FOLDER),)


def misfits(config: KueueConfig, text: str, name: str) -> list[ConfigurationProblem]:
    """Return a problem for each field that does not fit an installation. `text`, `name`: the file of `config`."""
    return list(_misfits(FIXED, config, text, name))


def certificate_misfits(config: KueueConfig, text: str, name: str, source: str) -> list[ConfigurationProblem]:
    """Return a problem for each field that does not fit `certificates.source`."""
    if source == "Managed":
        return list(_misfits(OWN_CERTIFICATES, config, text, name))
    problems = list(_misfits(MOUNTED_CERTIFICATES, config, text, name))
    path = f"{to_camel(CERTIFICATES)}.enable"
    if _lines(text, to_camel(CERTIFICATES)):
        enabled = _Fixed(CERTIFICATES, "enable", _is(False), MOUNTED.format(source))
        problems += _misfits((enabled,), config, text, name)
    elif len(_lines(f"{text}\n{ADDED}", path)) < 2:
        problems.append(ConfigurationProblem(name, 0, path, NOT_ADDED))
    return problems


def _misfits(fields: Iterable[_Fixed], config: KueueConfig, text: str, name: str) -> Iterator[ConfigurationProblem]:
    for each in fields:
        if not each.fits(value := each.value(config)):
            line = (_lines(text, each.path) or [0])[-1]
            message = f"{_shown(value)}; an installation has {each.wanted}"
            yield ConfigurationProblem(name, line, each.path, message)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(text: str, path: str) -> list[int]:
    """Return the lines of the fields on a path that are there: none in a ConfigMap, or in what is not YAML."""
    return [line_of(key) for key in _keys(compose(text, Findings("")), path.split("."))]


def _keys(node: yaml.Node | None, names: list[str]) -> Iterator[yaml.Node]:
    for name in names:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key, value) for key, value in pairs if key.value == name), None)
        if found is None:
            return
        yield found[0]
        node = found[1]
