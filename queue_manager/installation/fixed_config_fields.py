"""Fields of a KueueConfig that must fit the objects of an installation: ports, and the certificates of the webhooks.

The Services, probes, rights and volumes of an installation are the same for each configuration, in a Helm chart too. A
configuration with another port would be served where no Service leads, so it is refused.
BEHAVIOUR.md#q216-fixed-fields-of-an-installation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pydantic.alias_generators import to_camel

from queue_manager.api import component_names
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.webhook_and_tls_sections import CERTIFICATE_FOLDER
from queue_manager.configuration.yaml_places import ConfigurationProblem, lines_of_path
from queue_manager.installation.object_names import HEALTH_PORT, METRICS_PORT, VISIBILITY_PORT, WEBHOOK_PORT

REMEDY = "change the field, or leave it out"


class FixedField(NamedTuple):
    """A field: where it is, which values fit, and what these are in words.

    `pattern` matches the texts of the values that fit, in the syntax that Python and Go have in common: Helm compares
    them too (`helm_config_check`). The text of an absent value is empty.
    """

    section: str
    field: str
    pattern: str
    wanted: str
    remedy: str = REMEDY

    @property
    def path(self) -> str:
        """The path of the field in a file."""
        return f"{to_camel(self.section)}.{to_camel(self.field)}"

    def text(self, config: KueueConfig) -> str:
        """Return the value in the configuration as text."""
        section = getattr(config, self.section)
        value = getattr(section, self.field) if section is not None else None
        if value is None:
            return ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    def fits(self, text: str) -> bool:
        """Whether a value, as text, is what an installation has."""
        return re.fullmatch(self.pattern, text) is not None


LOOPBACK = r"(\[?[0:]*:0*1\]?|127(\.[0-9]+){3}|localhost):[0-9]+"
CERTIFICATES = "internal_cert_management"
ADDED = "internalCertManagement:\n  enable: false\n"  # with certificates of another issuer
MANAGED = "true, because certificates.source is Managed"
MOUNTED = "false with certificates.source {}"
LEFT_OUT = "leave the section out, and the installation adds that"
NOT_ADDED = "cannot be added to this text; add `internalCertManagement: {enable: false}`"
SERVICE, SECRET = component_names.WEBHOOK_SERVICE, component_names.WEBHOOK_SECRET
FIXED = (
    FixedField("health", "health_probe_bind_address", f".*:0*{HEALTH_PORT}", f"port {HEALTH_PORT}"),
    FixedField("health", "readiness_endpoint_name", "readyz", "readyz"),
    FixedField("health", "liveness_endpoint_name", "healthz", "healthz"),
    FixedField(
        "metrics", "bind_address", f"0?|.*:0*{METRICS_PORT}|{LOOPBACK}", f'port {METRICS_PORT}, or "0" for no metrics'
    ),
    FixedField("webhook", "port", f"0|{WEBHOOK_PORT}", f"port {WEBHOOK_PORT}"),
    FixedField("visibility_server", "bind_port", f"|{VISIBILITY_PORT}", f"port {VISIBILITY_PORT}"),
)
OWN_CERTIFICATES = (
    FixedField(CERTIFICATES, "enable", "true", MANAGED, "leave it out, or set certificates.source"),
    FixedField(CERTIFICATES, "webhook_service_name", re.escape(SERVICE), SERVICE),
    FixedField(CERTIFICATES, "webhook_secret_name", re.escape(SECRET), SECRET),
)
MOUNTED_CERTIFICATES = (FixedField("webhook", "cert_dir", re.escape(CERTIFICATE_FOLDER), CERTIFICATE_FOLDER),)


def misfits(config: KueueConfig, text: str, name: str) -> list[ConfigurationProblem]:
    """Return a problem for each field that does not fit an installation. `text`, `name`: the file of `config`."""
    return list(_misfits(FIXED, config, text, name))


def certificate_misfits(config: KueueConfig, text: str, name: str, source: str) -> list[ConfigurationProblem]:
    """Return a problem for each field that does not fit `certificates.source`."""
    if source == "Managed":
        return list(_misfits(OWN_CERTIFICATES, config, text, name))
    problems = list(_misfits(MOUNTED_CERTIFICATES, config, text, name))
    path = f"{to_camel(CERTIFICATES)}.enable"
    if lines_of_path(text, to_camel(CERTIFICATES)):
        enabled = FixedField(CERTIFICATES, "enable", "false", MOUNTED.format(source), LEFT_OUT)
        problems += _misfits((enabled,), config, text, name)
    elif len(lines_of_path(f"{text}\n{ADDED}", path)) < 2:
        problems.append(ConfigurationProblem(name, 0, path, NOT_ADDED))
    return problems


def _misfits(fields: Iterable[FixedField], config: KueueConfig, text: str, name: str) -> Iterator[ConfigurationProblem]:
    for each in fields:
        if not each.fits(value := each.text(config)):
            line = (lines_of_path(text, each.path) or [0])[-1]
            message = f"{value}; an installation has {each.wanted}; {each.remedy}"
            yield ConfigurationProblem(name, line, each.path, message)
