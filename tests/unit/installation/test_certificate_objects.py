"""Who issues the certificate decides about rights, the KueueConfig, caBundles and annotations."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
import yaml

from queue_manager.configuration.loading import loads
from queue_manager.engine.certificates import issue
from queue_manager.installation.certificate_objects import SERVED_NAMES
from queue_manager.installation.object_names import KINDS, resource_of
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import CONFIG, CertificateIssuer, Certificates, ManagerConfig, Settings
from queue_manager.operator.webhooks.ca_injection import OwnServices
from queue_manager.operator.webhooks.webhook_startup import serving_names

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Source = Literal["Managed", "Secret", "CertManager"]
AUTHORITY = issue("own", ["x"], NOW).authority
OWN = Certificates(source="Secret", ca_bundle=AUTHORITY)
INJECT = "cert-manager.io/inject-ca-from"


def made(certificates: Certificates, **more: Any) -> list[Json]:
    return objects(Settings(certificates=certificates, **more), "somewhere")


def config_of(trees: list[Json]) -> str:
    [data] = [tree["data"] for tree in trees if tree["metadata"]["name"] == "kueue-manager-config"]
    [text] = data.values()
    return str(text)


def client_configs(trees: list[Json]) -> list[Json]:
    """The parts of all objects that lead the API server to the manager."""
    found = [hook["clientConfig"] for tree in trees for hook in tree.get("webhooks", ())]
    found += [tree["spec"]["conversion"]["webhook"]["clientConfig"] for tree in trees if is_converted(tree)]
    return found + [tree["spec"] for tree in trees if tree["kind"] == "APIService"]


def is_converted(tree: Json) -> bool:
    return tree["kind"] == "CustomResourceDefinition" and "conversion" in tree["spec"]


@pytest.mark.parametrize("source", ["Secret", "CertManager"])
def test_only_a_manager_that_issues_the_certificate_has_rights_for_it(source: Source) -> None:
    def rules(trees: list[Json]) -> set[str]:
        return {name for tree in trees for rule in tree.get("rules") or () for name in rule.get("resources", ())}

    own = {"secrets", "customresourcedefinitions", "mutatingwebhookconfigurations", "apiservices"}
    assert own <= rules(made(Certificates()))
    assert not own & rules(made(Certificates(source=source)))
    assert not [tree for tree in made(Certificates(source=source)) if tree["kind"] == "Secret"]


def test_a_given_authority_is_in_every_ca_bundle() -> None:
    encoded = base64.b64encode(AUTHORITY.encode()).decode()
    found = client_configs(made(OWN))
    assert len(found) > 15
    assert {each.get("caBundle") for each in found} == {encoded}
    for other in (Certificates(), Certificates(source="Secret"), Certificates(source="CertManager")):
        assert not any("caBundle" in each for each in client_configs(made(other)))


def test_the_configuration_of_a_mounted_certificate_issues_none() -> None:
    text = config_of(made(OWN))
    assert text.startswith(CONFIG)
    assert not loads(text).internal_cert_management.enable
    given = f"{CONFIG}internalCertManagement: {{enable: false}}\n"
    config = ManagerConfig(controller_manager_config_yaml=given)
    assert config_of(made(OWN, manager_config=config)) == given
    assert config_of(made(Certificates())) == CONFIG


def test_cert_manager_issues_for_the_same_names_and_injects_in_the_same_places() -> None:
    """The manager would issue its certificate for these names, and inject its CA in these places."""
    trees = made(Certificates(source="CertManager"))
    [certificate] = [tree for tree in trees if tree["kind"] == "Certificate"]
    own = OwnServices("somewhere", SERVED_NAMES[0])
    assert set(certificate["spec"]["dnsNames"]) == {name for name in serving_names(own) if name.endswith(".svc")}
    [issuer] = [tree for tree in trees if tree["kind"] == "Issuer"]
    assert certificate["spec"]["issuerRef"]["name"] == issuer["metadata"]["name"]
    asked = [tree for tree in trees if INJECT in (tree["metadata"].get("annotations") or {})]
    assert len(client_configs(asked)) == len(client_configs(trees))
    reference = f"somewhere/{certificate['metadata']['name']}"
    assert {tree["metadata"]["annotations"][INJECT] for tree in asked} == {reference}
    assert INJECT not in yaml.safe_dump_all(made(OWN))


def test_a_named_issuer_takes_the_place_of_the_self_signed_one() -> None:
    chosen = CertificateIssuer(kind="ClusterIssuer", name="company")
    trees = made(Certificates(source="CertManager", issuer=chosen))
    [certificate] = [tree for tree in trees if tree["kind"] == "Certificate"]
    reference = certificate["spec"]["issuerRef"]
    assert (reference["kind"], reference["name"]) == ("ClusterIssuer", "company")
    assert not [tree for tree in trees if tree["kind"] == "Issuer"]


def test_every_object_has_a_kind_that_upgrades_and_removals_know() -> None:
    for tree in [*made(Certificates(source="CertManager")), *made(OWN)]:
        assert tree["kind"] in KINDS
        assert resource_of(tree).api_version == tree["apiVersion"]
