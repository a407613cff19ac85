"""Settings from values files and assignments."""

from __future__ import annotations

import json

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
        ("replicas=none", "replicas: Input should be a valid integer"),
        ("image.tga=v1", "image.tga: unknown setting"),
        ("components=Both", "components: Input should be 'Together', 'Apart', 'Queue' or 'JobController', not 'Both'"),
        ("replicas", "'replicas' is not KEY=VALUE"),
        ("namespaces=[A]", "namespaces.0: String should match pattern"),
        ("managerConfig.controllerManagerConfigYaml='a: 1'", "managerConfig.controllerManagerConfigYaml: "),
        ("webhook.timeoutSeconds=6", "webhook.timeoutSeconds: Input should be less than or equal to 5, not 6"),
        ("webhook.failurePolicy=Maybe", "webhook.failurePolicy: Input should be 'Fail' or 'Ignore', not 'Maybe'"),
        ("admissionPolicies.breakGlassGroup='a\"b'", "admissionPolicies.breakGlassGroup: String should match pattern"),
        ("notifications.secretName=A", "notifications.secretName: String should match pattern"),
        ("admissionPolicies.queueAccounts=['']", "admissionPolicies.queueAccounts.0: String should have at least 1"),
    ],
)
def test_a_mistake_names_the_setting(assignment: str, mistake: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings_from([], [assignment])
    assert str(error.value).startswith(mistake)


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
