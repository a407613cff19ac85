"""Settings from values files and assignments."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from queue_manager.installation.helm_values import SettingsError, settings_from, values_schema, values_yaml
from queue_manager.installation.settings import CONFIG, Settings, values_of


def test_values_yaml_says_what_the_defaults_are() -> None:
    assert yaml.safe_load(values_yaml()) == values_of(Settings())


def test_every_setting_is_described() -> None:
    def undescribed(schema: dict[str, object], path: str) -> list[str]:
        found = []
        for name, child in (schema.get("properties") or {}).items():  # type: ignore[attr-defined]
            found += [] if child.get("description") else [path + name]
            found += undescribed(child, f"{path}{name}.")
        return found

    assert undescribed(json.loads(values_schema()), "") == []


def test_assignments_go_before_files_and_later_ones_before_earlier_ones() -> None:
    files = [{"image": {"tag": "a", "repository": "r"}}, {"image": {"tag": "b"}, "replicas": 3}]
    settings = settings_from(files, ["image.tag=c", "image.tag=d", "namespaces=[x, y]"])
    assert (settings.image.tag, settings.image.repository, settings.replicas) == ("d", "r", 3)
    assert settings.namespaces == ["x", "y"]


@pytest.mark.parametrize(
    ("assignment", "mistake"),
    [
        ("replicas=none", 'replicas: "none" is a string; must be an integer'),
        ("image.tga=v1", "image.tga: unknown setting"),
        (
            "components=Both",
            'components: "Both" is not supported; must be "Together", "Apart", "Queue" or "JobController"',
        ),
        ("replicas", "'replicas' is not KEY=VALUE"),
        ("namespaces=[A]", 'namespaces[0]: "A" is not allowed; must be lower-case letters, digits and -'),
        ("managerConfig.controllerManagerConfigYaml='a: 1'", "managerConfig.controllerManagerConfigYaml: "),
        ("webhook.timeoutSeconds=6", "webhook.timeoutSeconds: 6 is out of range; must be at most 5"),
        ("webhook.failurePolicy=Maybe", 'webhook.failurePolicy: "Maybe" is not supported; must be "Fail" or "Ignore"'),
        (
            "admissionPolicies.breakGlassGroup='a\"b'",
            'admissionPolicies.breakGlassGroup: "a"b" is not allowed; must be letters',
        ),
        ("tracing.sampler=foo", 'tracing.sampler: "foo" is not supported; must be "always_on", "always_off", '),
        (
            "tracing.samplerArgument='2'",
            'tracing.samplerArgument: "2" is not allowed; must be a fraction from 0 to 1, or empty',
        ),
        ("resources.requests.cpu=lots", "resources.requests.cpu: 'lots' is not a quantity, such as 500m or 1Gi"),
        ("resources.limits.memory=-1Gi", "resources.limits.memory: '-1Gi' is negative"),
        ("resources.limits.memory=[]", "resources.limits.memory: [] is not a quantity"),
        ("resources.request={cpu: 1}", 'resources.request: "request" is not supported; must be "requests" or "limits"'),
        (
            "admissionPolicies.mutatingPolicyVersion=v2",
            'admissionPolicies.mutatingPolicyVersion: "v2" is not supported; must be "v1", ',
        ),
        (
            "certificates.source=Mine",
            'certificates.source: "Mine" is not supported; must be "Managed", "Secret" or "CertManager"',
        ),
        ("certificates.secretName=''", 'certificates.secretName: "" is not allowed; must be the name of a Secret ('),
        ("certificates.caBundle=LS0t", 'certificates.caBundle: "LS0t" is not allowed; must be certificates as PEM'),
        ("notifications.secretName=A", 'notifications.secretName: "A" is not allowed; must be the name of a Secret'),
        ("admissionPolicies.queueAccounts=['']", "admissionPolicies.queueAccounts[0]: is empty; must have a value"),
    ],
)
def test_a_mistake_names_the_setting(assignment: str, mistake: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings_from([], [assignment])
    assert str(error.value).startswith(mistake)


@pytest.mark.parametrize("tag", ["1.10", "110", "v1", "1e3"])
def test_a_setting_of_type_text_is_taken_as_it_is_written(tag: str) -> None:
    assert settings_from([], [f"image.tag={tag}"]).image.tag == tag


def test_all_mistakes_are_reported_together() -> None:
    with pytest.raises(SettingsError) as error:
        settings_from([], ["replicas=0", "crds.install=maybe"])
    assert len(str(error.value).splitlines()) == 2


def test_a_config_map_is_no_configuration() -> None:
    """A Helm chart could not read the scope of the webhooks from the text in it."""
    data = {"controller_manager_config.yaml": CONFIG}
    text = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": data})
    with pytest.raises(SettingsError, match="is a ConfigMap; give the Configuration in it"):
        settings_from([{"managerConfig": {"controllerManagerConfigYaml": text}}], [])


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("webhook: {port: 9555}", "webhook.port: 9555; an installation has port 9443"),
        ('health: {healthProbeBindAddress: ":9090"}', "health.healthProbeBindAddress: :9090; an installation has port"),
        ('health: {healthProbeBindAddress: "0"}', "health.healthProbeBindAddress: 0; an installation has port 8081"),
        ('metrics: {bindAddress: ":9443"}', "metrics.bindAddress: :9443; an installation has port 8443"),
        ("visibilityServer: {bindPort: 8083}", "visibilityServer.bindPort: 8083; an installation has port 8082"),
        (
            "internalCertManagement: {enable: false}",
            "internalCertManagement.enable: false; an installation has true, because certificates.source is Managed",
        ),
        (
            "internalCertManagement: {webhookSecretName: s}",
            "internalCertManagement.webhookSecretName: s; an installation has kueue-webhook-server-cert",
        ),
    ],
)
def test_a_configuration_that_the_objects_of_an_installation_do_not_fit_is_refused(section: str, said: str) -> None:
    text = f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{section}\n"
    with pytest.raises(SettingsError, match=re.escape(f"controllerManagerConfigYaml:3: {said}")):
        settings_from([{"managerConfig": {"controllerManagerConfigYaml": text}}], [])


@pytest.mark.parametrize(
    "section", ['metrics: {bindAddress: "0"}', "metrics: {bindAddress: 127.0.0.1:8080}", "webhook: {port: 0}"]
)
def test_a_configuration_without_metrics_or_with_the_default_port_fits(section: str) -> None:
    text = f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{section}\n"
    settings_from([{"managerConfig": {"controllerManagerConfigYaml": text}}], [])


HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"{HEAD}internalCertManagement: {{enable: true}}\n",
            ":3: internalCertManagement.enable: true; an installation ",
        ),
        (
            f"{HEAD}internalCertManagement:\n",
            ":3: internalCertManagement.enable: true; an installation has false with ",
        ),
        (f"{HEAD}webhook: {{certDir: /certs}}\n", ":3: webhook.certDir: /certs; an installation has /tmp/k8s-webhook-"),
        (
            f"{{{', '.join(HEAD.split(chr(10))[:2])}}}",
            ": internalCertManagement.enable: cannot be added to this text; add",
        ),
    ],
)
@pytest.mark.parametrize("source", ["Secret", "CertManager"])
def test_with_another_issuer_a_configuration_that_issues_itself_is_refused(text: str, said: str, source: str) -> None:
    values = {"certificates": {"source": source}, "managerConfig": {"controllerManagerConfigYaml": text}}
    with pytest.raises(SettingsError, match=re.escape(f"controllerManagerConfigYaml{said}")):
        settings_from([values], [])
