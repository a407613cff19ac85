"""`sluice install` prints manifests, or says what is wrong with the settings."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
import yaml

from queue_manager.cli.main import main
from queue_manager.configuration.loading import loads
from queue_manager.installation.helm_values import settings_from
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import CONFIG, Settings


def test_it_prints_the_objects_of_the_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("replicas: 3\nimage: {tag: v1}\n")
    flags = ("--namespace", "sys", "--values", str(file), "--set", "image.tag=v2", "--without-crds")
    assert main(["install", *flags, "--namespaced", "a,b"]) == 0
    settings = Settings.model_validate(
        {"replicas": 3, "image": {"tag": "v2"}, "crds": {"install": False}, "namespaces": ["a", "b"]}
    )
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == objects(settings, "sys")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("replicas: 0\nimage: {tga: x}\n", "replicas: 0 is out of range; must be at least 1\nimage.tga: "),
        ("a: [", "{file}: is not YAML: "),
        ("[1]", "{file}: is not a mapping of settings"),
        (None, "{file}: No such file or directory"),
    ],
)
def test_wrong_settings_are_refused_in_one_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    file = tmp_path / "values.yaml"
    if text is not None:
        file.write_text(text)
    assert main(["install", "--values", str(file)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1 + said.count("\n")
    assert error.startswith("sluice install: " + said.format(file=file))


def test_the_configuration_is_that_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{CONFIG}manageJobsWithoutQueueName: true\n")
    assert main(["install", "--config", str(file)]) == 0
    trees = list(yaml.safe_load_all(capsys.readouterr().out))
    [config] = [tree["data"] for tree in trees if tree["kind"] == "ConfigMap" and "manager" in tree["metadata"]["name"]]
    assert list(config.values()) == [file.read_text()]
    hooks = [hook["name"] for tree in trees for hook in tree.get("webhooks", ())]
    assert "mjob.kb.io" in hooks
    assert "mjob-default.kb.io" not in hooks


@pytest.mark.parametrize("source", ["pipe", "standard input"])
def test_the_configuration_may_come_from_a_pipe(
    source: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be read once only."""
    text = f"{CONFIG}waitForPodsReady: {{timeout: 9m}}\n"
    end, other = os.pipe()
    os.write(other, text.encode())
    os.close(other)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["install", "--config", f"/dev/fd/{end}" if source == "pipe" else "-"]) == 0
    os.close(end)
    printed = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each["kind"] == "ConfigMap"]
    assert text in [each.get("data", {}).get("controller_manager_config.yaml") for each in printed]


def test_the_page_for_admins_gives_the_queue_its_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The two files of deploy/CLUSTER.md#history."""
    page = (Path(__file__).parents[3] / "deploy" / "CLUSTER.md").read_text()
    section = page.partition("\n## History\n")[2].partition("\n## ")[0]
    written = [block.partition("```")[0] for block in section.split("```yaml\n")[1:]]
    config, values = tmp_path / "kueue_config.yaml", tmp_path / "history.yaml"
    for file, text in zip((config, values), (CONFIG + written[0], written[1]), strict=True):
        file.write_text(text)
    assert main(["install", "--config", str(config), "--values", str(values)]) == 0
    [queue] = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each["kind"] == "Deployment"]
    [manager] = queue["spec"]["template"]["spec"]["containers"]
    [password] = [each for each in manager["env"] if each["name"] == "PGPASSWORD"]
    secret = password["valueFrom"]["secretKeyRef"]
    assert f"create secret generic {secret['name']} --from-literal={secret['key']}=" in section
    assert loads(config.read_text(), "config").history.url.startswith("postgresql://sluice_writer@")


@pytest.mark.parametrize(
    ("chosen", "enable", "said"),
    [("Secret", "true", "true; an installation has false"), ("Managed", "false", "false; an installation has true")],
)
def test_a_configuration_that_does_not_fit_the_issuer_names_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], chosen: str, enable: str, said: str
) -> None:
    file, values = tmp_path / "config.yaml", tmp_path / "values.yaml"
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    file.write_text(f"{head}internalCertManagement:\n  enable: {enable}\n")
    values.write_text(f"certificates: {{source: {chosen}}}\n")
    for option in (["--set", f"certificates.source={chosen}"], ["--values", str(values)]):
        assert main(["install", "--config", str(file), *option]) == 2
        assert f"{file}:4: internalCertManagement.enable: {said}" in capsys.readouterr().err


def test_a_mistake_in_the_configuration_names_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmanageJobsWithoutQueueName: 1\n")
    assert main(["install", "--config", str(file)]) == 2
    expected = f"sluice install: {file}:3: manageJobsWithoutQueueName: 1 is an integer; must be true or false\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("name", ["Foo", "a_b", "", "a" * 64, "a.b", "-a"])
@pytest.mark.parametrize(
    "command", [["install", "--namespace"], ["uninstall", "--namespace"], ["install", "--namespaced"]]
)
def test_a_namespace_must_be_a_dns_label(command: list[str], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*command[:-1], f"{command[-1]}={name}"])
    assert f"argument {command[-1]}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "sluice install: image.repository is the default, sluice, which no registry has: "),
        (["--set", "image.repository=registry.example/sluice"], ""),
    ],
)
def test_an_image_that_no_registry_has_is_named(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", *options]) == 0
    error = capsys.readouterr().err
    assert error.startswith(said)
    assert bool(error) == bool(said)


FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
"""
QUEUE = """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
"""


def test_cluster_objects_are_part_of_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "queues.yaml").write_text(FLAVOR + QUEUE)
    flags = ("--namespace", "a", "--namespaced", "a", "--cluster-objects", str(tmp_path / "queues.yaml"))
    assert main(["install", *flags]) == 0
    settings = Settings(namespaces=["a"], cluster_objects=FLAVOR + QUEUE)
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == objects(settings, "a")


@pytest.mark.parametrize("command", [["install"], ["upgrade", "--check"]])
def test_mistakes_in_cluster_objects_have_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(f"{FLAVOR}spec: {{nodeLabels: [x]}}\n")
    assert main([*command, "--namespaced", "a", "--cluster-objects", str(file)]) == 2
    assert f"{file}:4: spec.nodeLabels: " in capsys.readouterr().err
    assert main([*command, "--cluster-objects", str(file)]) == 2
    assert "clusterObjects: needs the queue and listed `namespaces`" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "# queues\n", "---\n", FLAVOR])
def test_a_file_without_a_cluster_queue_does_not_install_for_the_whole_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(text)
    assert main(["install", "--namespaced", "a", "--cluster-objects", str(file)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert f"{file}: has no ClusterQueue\n" in error


@pytest.mark.parametrize(
    ("assignment", "setting", "expected"),
    [
        ("namespaces={a,b}", "namespaces", ["a", "b"]),
        ("namespaces={a}", "namespaces", ["a"]),
        ("namespaces=[a, b]", "namespaces", ["a", "b"]),
        ("nodeSelector={disk: ssd}", "node_selector", {"disk": "ssd"}),
        ("nodeSelector={}", "node_selector", {}),
        ("resources={limits: }", "resources", {"limits": None, "requests": {"cpu": "500m", "memory": "512Mi"}}),
        ("resources=limits:", "resources", {"limits": None, "requests": {"cpu": "500m", "memory": "512Mi"}}),
    ],
)
def test_a_list_is_set_as_in_helm(assignment: str, setting: str, expected: object) -> None:
    assert getattr(settings_from((), [assignment]), setting) == expected


def test_a_list_of_user_names_with_colons_is_set_as_in_helm() -> None:
    settings = settings_from((), ["admissionPolicies.queueAccounts={system:serviceaccount:a:b,c}"])
    assert settings.admission_policies.queue_accounts == ["system:serviceaccount:a:b", "c"]
