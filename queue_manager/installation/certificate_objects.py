"""Who issues the certificate of the manager's servers, and what the objects of an installation need for that.

    certificates.source    the manager                        the CA in the caBundles
    Managed                issues it into its own Secret      written by the manager
    Secret                 mounts a Secret of the admin       `certificates.caBundle`, if given
    CertManager            mounts the Secret of cert-manager  written by its cainjector, asked by annotations

A mounted Secret is where webhook.certDir is by default, and its files are read again when they change. The
KueueConfig then needs `internalCertManagement.enable: false`, which is added unless it has that section.
BEHAVIOUR.md#q230-certificates-of-another-issuer.
"""

from __future__ import annotations

from collections.abc import Mapping

from queue_manager.configuration.webhook_and_tls_sections import CERTIFICATE_FOLDER
from queue_manager.installation import object_names
from queue_manager.installation.fixed_config_fields import ADDED
from queue_manager.installation.rbac_objects import QUEUE_RUNS, WEBHOOKS
from queue_manager.installation.template import (
    CONFIG,
    CONFIG_FIELDS,
    NAMESPACE,
    Choice,
    Encoded,
    Node,
    Setting,
    Template,
    TemplateCondition,
    Text,
    when,
)

SOURCE = "certificates.source"
MANAGED = TemplateCondition(SOURCE, ("Managed",))
MOUNTED = TemplateCondition(SOURCE, ("Secret", "CertManager"))
CERT_MANAGER = TemplateCondition(SOURCE, ("CertManager",))
OWN_AUTHORITY = (*WEBHOOKS, TemplateCondition(SOURCE, ("Secret",)), TemplateCondition("certificates.caBundle"))
ISSUER_GIVEN = TemplateCondition("certificates.issuer.name")
ISSUER_NEEDED = TemplateCondition("certificates.issuer.name", negated=True)

CERTIFICATE, SELF_SIGNED = "kueue-serving-cert", "kueue-selfsigned-issuer"
INJECT_FROM = "cert-manager.io/inject-ca-from"
SERVED_NAMES = (
    object_names.WEBHOOK_SERVICE,
    object_names.CONVERSION_SERVICE,
    object_names.VISIBILITY_SERVICE,
    object_names.METRICS_SERVICE,
)


def certificate_templates() -> list[Template]:
    """Return the Certificate, and the Issuer that signs it if none is given."""
    wanted = (QUEUE_RUNS, *WEBHOOKS, CERT_MANAGER)
    return [when(_issuer(), *wanted, ISSUER_NEEDED), when(_certificate(), *wanted)]


def _issuer() -> Node:
    return {
        "apiVersion": f"{object_names.CERT_MANAGER}/v1",
        "kind": "Issuer",
        "metadata": {"name": SELF_SIGNED, "namespace": NAMESPACE, "labels": object_names.LABELS},
        "spec": {"selfSigned": {}},
    }


def _certificate() -> Node:
    return {
        "apiVersion": f"{object_names.CERT_MANAGER}/v1",
        "kind": "Certificate",
        "metadata": {"name": CERTIFICATE, "namespace": NAMESPACE, "labels": object_names.LABELS},
        "spec": {
            "secretName": Setting("certificates.secretName"),
            "dnsNames": [Text(f"{name}.", NAMESPACE, ".svc") for name in SERVED_NAMES],
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "issuerRef": {
                "group": object_names.CERT_MANAGER,
                "kind": Choice(ISSUER_GIVEN, Setting("certificates.issuer.kind"), "Issuer"),
                "name": Choice(ISSUER_GIVEN, Setting("certificates.issuer.name"), SELF_SIGNED),
            },
        },
    }


def injected(metadata: Mapping[str, Node]) -> Node:
    """Return metadata of an object with a caBundle, with the annotation by which cert-manager writes that."""
    annotations, reference = metadata.get("annotations"), Text(NAMESPACE, f"/{CERTIFICATE}")
    if isinstance(annotations, Mapping):
        added = when(reference, *WEBHOOKS, CERT_MANAGER)
        return {**metadata, "annotations": {**annotations, INJECT_FROM: added}}
    return {**metadata, "annotations": when({INJECT_FROM: reference}, *WEBHOOKS, CERT_MANAGER)}


def trusted(client: Mapping[str, Node]) -> Node:
    """Return the part of an object that names a Service of the manager, with the CA of the admin."""
    return {**client, "caBundle": when(Encoded("certificates.caBundle"), *OWN_AUTHORITY)}


def config_text() -> Node:
    """Return the KueueConfig as the manager reads it."""
    has_section = TemplateCondition(f"{CONFIG_FIELDS}internalCertManagement")
    added = Text(Setting(CONFIG), f"\n{ADDED}")
    return Choice(MOUNTED, Choice(has_section, Setting(CONFIG), added), Setting(CONFIG))


def volume() -> Node:
    """Return the volume of the mounted Secret; a pod waits until it exists."""
    return {"name": "serving-certificate", "secret": {"secretName": Setting("certificates.secretName")}}


def volume_mount() -> Node:
    """Return where the container has the Secret."""
    return {"name": "serving-certificate", "mountPath": CERTIFICATE_FOLDER, "readOnly": True}
