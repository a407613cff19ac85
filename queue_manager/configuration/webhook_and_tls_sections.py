"""The webhook server of `sluice manager`: its address, its certificate, and the TLS of this and the other servers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from queue_manager.api import component_names
from queue_manager.configuration.config_field_types import AtStart, ConfigModel, List, NoEffect, Opaque

SERVING = AtStart("the webhooks are served already")
CERTIFICATE_FOLDER = "/tmp/k8s-webhook-server/serving-certs"  # where Kueue mounts its Secret

# Names of Go's crypto/tls, by which Kubernetes components are configured, and those of OpenSSL: the cipher suites that
# Go calls secure. Those of TLS 1.3 are always on, in Go as in Python.
CIPHER_SUITES = {
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}


class Webhook(ConfigModel):
    """The webhook server."""

    port: Annotated[int, Field(ge=0, le=65535)] = 9443
    """The port of the server; 0 is 9443."""

    host: str = ""
    """The address that the server binds to. Empty: all."""

    cert_dir: str = CERTIFICATE_FOLDER
    """The directory of tls.crt and tls.key, where internalCertManagement is off. They are read again when they
    change."""


class InternalCertManagement(ConfigModel):
    """Certificates that the manager issues itself, renews, and makes known to the API server."""

    enable: bool = True
    """Whether it does. Off: another controller, such as cert-manager, writes webhook.certDir and every caBundle."""

    webhook_service_name: str = component_names.WEBHOOK_SERVICE
    """The Service that they are issued for."""

    webhook_secret_name: str = component_names.WEBHOOK_SECRET
    """The Secret that they are kept in."""


class Tls(ConfigModel):
    """TLS of the servers of the manager."""

    min_version: str = ""
    """VersionTLS12 or VersionTLS13. Omitted: VersionTLS13, with cipherSuites VersionTLS12."""

    cipher_suites: List[str] = ()
    """Names as in Go. Omitted: those that OpenSSL prefers. Not with VersionTLS13."""

    curve_preferences: Annotated[Opaque, NoEffect("the curves are those that OpenSSL prefers")] = None
    """Curves, in order of preference."""
