"""Every mistake of a configuration is reported at once, with line, field and what is allowed."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from job_controller.options import JobControllerOptions
from queue_manager.configuration import ConfigurationError, KueueConfig, load, loads

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
HEAD_V1BETA1 = HEAD.replace("v1beta2", "v1beta1")


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        loads(text, "f")
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("fooBar: 1", "f:3: fooBar: unknown field; allowed here: admissionFairSharing, backfill, clientConnection,"),
        ("waitForPodReady: {}", 'f:3: waitForPodReady: unknown field; did you mean "waitForPodsReady"?'),
        (
            "waitForPodsReady:\n  enable: true",
            "f:4: waitForPodsReady.enable: unknown field; only v1beta1 has it; remove it: waiting is on unless "
            "featureGates has DisableWaitForPodsReady: true",
        ),
        (
            "fairSharing: {enable: true, preemptionStrategies: [LessThanInitialShare]}",
            "f:3: fairSharing.enable: unknown field; only v1beta1 has it; remove it: fair sharing is on if the section "
            "fairSharing is present",
        ),
        ("queueVisibility: {}", "f:3: queueVisibility: unknown field; only v1beta1 has it; remove it"),
        (
            "wait_for_pods_ready:\n  timeout: 5m",
            "f:3: wait_for_pods_ready: unknown field; allowed here: ",
        ),
        ("namespace: a\nnamespace: b", "f:4: namespace: duplicate key; first given in line 3"),
        ("namespace: 5", 'f:3: namespace: 5 is an integer; must be a string, in quotes: "5"'),
        ("namespace: [a]", "f:3: namespace: is a list; must be a string"),
        (
            "manageJobsWithoutQueueName: maybe",
            'f:3: manageJobsWithoutQueueName: "maybe" is a string; must be true or false',
        ),
        (
            "clientConnection: {qps: .nan}",
            "f:3: clientConnection.qps: .nan cannot be represented in JSON; must be a number",
        ),
        (
            "waitForPodsReady: {requeuingStrategy: {backoffBaseSeconds: 1:30}}",
            'f:3: waitForPodsReady.requeuingStrategy.backoffBaseSeconds: "1:30" is a string; must be an integer',
        ),
        ("waitForPodsReady: true", "f:3: waitForPodsReady: true is a boolean; must be a mapping"),
        (
            "waitForPodsReady:\n  timeout: 5",
            "f:4: waitForPodsReady.timeout: 5 is an integer without a unit; "
            'must be a duration such as "30s", "5m" or "1h30m"',
        ),
        (
            "waitForPodsReady: {requeuingStrategy: {timestamp: Never}}",
            'f:3: waitForPodsReady.requeuingStrategy.timestamp: "Never" is not supported; '
            'must be "Creation" or "Eviction"',
        ),
        (
            "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: 3000000000}}",
            "f:3: waitForPodsReady.requeuingStrategy.backoffLimitCount: 3000000000 is out of range; "
            "must be a 32-bit integer",
        ),
        (
            "jobController: {maxUncountedPods: 0}",
            "f:3: jobController.maxUncountedPods: 0 is out of range; must be greater than or equal to 1",
        ),
        (
            "history: {url: 'mysql://host/db'}",
            'f:3: history.url: "mysql://host/db" is not the URL of a store; must be sqlite:///PATH or postgresql://HOST/DATABASE',
        ),
        (
            "history: {maxRows: 0}",
            "f:3: history.maxRows: 0 is out of range; must be greater than or equal to 1",
        ),
        (
            "jobController: {concurrentSyncs: 1000000}",
            "f:3: jobController.concurrentSyncs: 1000000 is out of range; must be 1-10000",
        ),
        (
            "jobController: {podFailureBackoffMax: 1s}",
            "f:3: jobController.podFailureBackoffMax: is less than podFailureBackoffBase; "
            "must be greater than or equal to it",
        ),
        (
            "metrics: {bindAddress: here}",
            'f:3: metrics.bindAddress: "here" is not an address; must be ":port", "host:port", or "0" for none',
        ),
        (
            "visibilityServer:\n  bindPort: 70000",
            "f:4: visibilityServer.bindPort: 70000 is out of range; must be 1-65535",
        ),
        (
            "resources:\n  transformations:\n    - input: a\n      outputs: {b: lots}",
            'f:6: resources.transformations[0].outputs[b]: "lots" is not a quantity; must be like "500m", "2" or "1Gi"',
        ),
        (
            "leaderElection: {leaseDuration: 5s}",
            "f:3: leaderElection.renewDeadline: is too long; must be less than leaseDuration",
        ),
        ("featureGates: {PartialAdmision: true}", "f:3: featureGates[PartialAdmision]: unrecognized feature gate;"),
        (
            "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: Like}]}",
            "f:3: managedJobsNamespaceSelector.matchExpressions[0].operator: "
            '"Like" is not supported; must be "In", "NotIn", "Exists" or "DoesNotExist"',
        ),
        (
            "notifications:\n  events: [JobDone]",
            'f:4: notifications.events[0]: "JobDone" is not an event; '
            'must be "JobSucceeded", "JobFailed", "JobDeactivated" or "JobPreempted"',
        ),
        ('notifications: {command: [""]}', "f:3: notifications.command[0]: is empty; must be a program"),
        (
            "notifications: {webhook: {url: 'https://host/', urlFile: f, secretEnv: S}}",
            "f:3: notifications.webhook.url: exactly one of url and urlFile is required",
        ),
        (
            "notifications: {webhook: {url: 'https://host/'}}",
            "f:3: notifications.webhook.secretFile: exactly one of secretFile and secretEnv is required",
        ),
        (
            "notifications: {webhook: {url: 'https://user:pass@host/', secretEnv: S}}",
            "f:3: notifications.webhook.url: must be a URL with http or https, with a host and without a user",
        ),
    ],
)
def test_a_mistake_is_reported_with_line_field_and_what_is_allowed(body: str, expected: str) -> None:
    found = problems(HEAD + body + "\n")
    assert len(found) == 1
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{{", ["f:1: not YAML: "]),
        ("a: [1\n", ["f:1: not YAML: "]),
        ("- a\n", ["f:1: is a list; a Configuration is a YAML mapping"]),
        (HEAD + "---\n" + HEAD, ["f:4: a second document; there may be only one"]),
        ("namespace: a\n", ["f:1: apiVersion: is missing; must be ", 'f:1: kind: is missing; must be "Configuration"']),
        (
            HEAD.replace("Configuration", "Config"),
            ['f:2: kind: "Config" is not a Configuration; must be "Configuration"'],
        ),
        (
            HEAD.replace("config.kueue.x-k8s.io/v1beta2", "v1"),
            ['f:1: apiVersion: "v1" is not a Configuration version; must be "config.kueue.x-k8s.io/v1beta2" or '],
        ),
        ("[" * 3000, ["f"]),
    ],
    ids=["braces", "open list", "list", "two documents", "no kind", "other kind", "other version", "deep"],
)
def test_a_file_that_is_not_a_configuration_is_refused(text: str, expected: list[str]) -> None:
    found = problems(text)
    assert len(found) == len(expected)
    assert all(problem.startswith(start) for problem, start in zip(found, expected, strict=True)), found


CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: kueue-manager-config}
data:
  controller_manager_config.yaml: |
    apiVersion: config.kueue.x-k8s.io/v1beta1
    kind: Configuration
    namespace: mine
"""


def test_the_configuration_in_a_config_map_is_read() -> None:
    assert loads(CONFIG_MAP).namespace == "mine"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CONFIG_MAP.replace("mine", "5"), "f:8: namespace: 5 is an integer"),
        (
            """{"kind": "ConfigMap", "data": {"controller_manager_config.yaml": "namespace: 5"}}""",
            "f (controller_manager_config.yaml):1: apiVersion: is missing",
        ),
        ("kind: ConfigMap\ndata: {other.yaml: a}", "f:1: data[controller_manager_config.yaml]: is missing"),
        (
            "kind: ConfigMap\ndata: {controller_manager_config.yaml: [a]}",
            "f:1: data[controller_manager_config.yaml]: is",
        ),
    ],
    ids=["block", "JSON", "another key", "no text"],
)
def test_a_mistake_in_a_config_map_is_reported_with_its_line(text: str, expected: str) -> None:
    assert problems(text)[0].startswith(expected)


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is a directory; name a file"):
        load(tmp_path)


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = HEAD + (
        "waitForPodsReady:\n  timeout: soon\n  requeuingStrategy:\n    timestamp: x\n    backoffLimitCount: -1\n"
        "metrics:\n  bindAddress: 0\nintegrations:\n  frameworks: [batch/job, foo/bar]\nfoo: 1\n"
    )
    assert [problem.split(": ")[:2] for problem in problems(text)] == [
        ["f:4", "waitForPodsReady.timeout"],
        ["f:6", "waitForPodsReady.requeuingStrategy.timestamp"],
        ["f:7", "waitForPodsReady.requeuingStrategy.backoffLimitCount"],
        ["f:9", "metrics.bindAddress"],
        ["f:11", "integrations.frameworks[1]"],
        ["f:12", "foo"],
    ]


def fields(text: str) -> list[str]:
    return [problem.split(": ")[1] for problem in problems(text)]


def test_an_unreadable_value_hides_no_other_mistake() -> None:
    text = HEAD + (
        "integrations:\n  frameworks:\n  - 5\n  - foo/bar\n"
        "metrics:\n  customLabels:\n  - name: 7x\n  - 8\n"
        "multiKueue:\n  externalFrameworks: [{name: 5}, {name: x}]\n"
        "leaderElection: {retryPeriod: 1h, resourceName: 5}\n"
    )
    assert fields(text) == [
        "integrations.frameworks[0]",
        "integrations.frameworks[1]",
        "metrics.customLabels[0].name",
        "metrics.customLabels[1]",
        "multiKueue.externalFrameworks[0].name",
        "multiKueue.externalFrameworks[1].name",
        "leaderElection.resourceName",
        "leaderElection.retryPeriod",
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("leaderElection: {leaseDuration: 5, renewDeadline: 20s}", "leaderElection.leaseDuration"),
        (
            "jobController: {podFailureBackoffBase: 1, podFailureBackoffMax: 5s}",
            "jobController.podFailureBackoffBase",
        ),
        (
            "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: In, values: [5]}]}",
            "managedJobsNamespaceSelector.matchExpressions[0].values[0]",
        ),
        ("managedJobsNamespaceSelector: {matchLabel: {a: b}}", "managedJobsNamespaceSelector.matchLabel"),
        ("fairSharing: {preemptionStrategies: 5}", "fairSharing.preemptionStrategies"),
    ],
)
def test_an_unreadable_value_is_not_validated_by_its_default(body: str, expected: str) -> None:
    assert fields(HEAD + body + "\n") == [expected]


def test_an_unreadable_switch_of_a_section_counts_as_on() -> None:
    body = "waitForPodsReady: {enable: 1, timeout: -5s}\nfairSharing: {enable: 1, preemptionStrategies: [x]}\n"
    assert sorted(fields(HEAD_V1BETA1 + body)) == [
        "fairSharing.enable",
        "fairSharing.preemptionStrategies",
        "waitForPodsReady.enable",
        "waitForPodsReady.timeout",
    ]


def test_an_empty_element_of_a_list_is_refused() -> None:
    assert problems(HEAD + "integrations:\n  frameworks:\n  - batch/job\n  -\n") == [
        "f:6: integrations.frameworks[1]: is empty; must have a value"
    ]


def test_a_null_is_the_same_as_an_absent_field() -> None:
    assert loads(HEAD + "namespace: null\nwaitForPodsReady:\nmetrics: ~\n") == KueueConfig()


def test_each_field_without_effect_is_named_once() -> None:
    config = loads(
        HEAD + "multiKueue: {origin: here, dispatcherName: x}\ntls: {curvePreferences: [X25519]}\n"
        "integrations: {frameworks: [batch/job, pod]}\nfeatureGates: {PartialAdmission: false}\n"
        "resources: {deviceClassMappings: [{name: a, deviceClassNames: [b]}]}\n"
    )
    assert [line.split(":")[0] for line in config.ignored] == [
        "multiKueue",
        "tls.curvePreferences",
        "resources.deviceClassMappings",
        "integrations.frameworks[1] (pod)",
        "featureGates[PartialAdmission]",
    ]
    assert all(": " in line for line in config.ignored)


def test_bounds_of_waiting_count_only_while_it_is_on_and_types_always() -> None:
    """As in Kueue, which always decodes waitForPodsReady and validates it only if it is enabled."""
    section = "waitForPodsReady: {timeout: -1s, requeuingStrategy: {timestamp: x, backoffBaseSeconds: -1}}\n"
    assert loads(HEAD_V1BETA1 + section).wait_for_pods_ready is None
    off = HEAD + "featureGates: {DisableWaitForPodsReady: true}\n"
    assert loads(off + section).wait_for_pods_ready is None
    assert fields(off + "waitForPodsReady: {timeout: soon, requeuingStrategy: {timestamp: 5}}\n") == [
        "waitForPodsReady.timeout",
        "waitForPodsReady.requeuingStrategy.timestamp",
    ]


@pytest.mark.parametrize("value", ["!!binary aGk=", "!foo x"])
def test_a_string_with_another_tag_is_refused(value: str) -> None:
    assert problems(f"{HEAD}namespace: {value}\n")[0].startswith("f:3: namespace: ")


@pytest.mark.parametrize(
    "body", ["metrics: {customLabels: []}", "controller: {groupKindConcurrency: {}}", "multiKueue: {origin: ''}"]
)
def test_an_empty_value_sets_nothing_that_is_ignored(body: str) -> None:
    """`sluice check-config` prints such values for what is not set."""
    assert loads(HEAD + body).ignored == ()


def test_the_gate_that_switches_waiting_off_is_not_ignored() -> None:
    config = loads(HEAD + "featureGates: {DisableWaitForPodsReady: true}\nwaitForPodsReady: {timeout: -1s}\n")
    assert config.wait_for_pods_ready is None
    assert config.ignored == ()


def test_the_default_selector_excludes_the_managers_namespace() -> None:
    config = loads(HEAD + "namespace: mine\n")
    excluded = [
        name
        for name in ("kube-system", "kueue-system", "mine", "other")
        if not config.managed_jobs_namespace_selector.matches({"kubernetes.io/metadata.name": name})
    ]
    assert excluded == ["kube-system", "mine"]


def test_v1beta1_blocks_admission_by_default() -> None:
    config = loads(HEAD_V1BETA1 + "waitForPodsReady: {enable: true, blockAdmission: false, recoveryTimeout: 0s}\n")
    assert config.wait_for_pods_ready is not None
    assert not config.wait_for_pods_ready.block_admission
    assert config.wait_for_pods_ready.timeout == timedelta(minutes=5)
    assert config.wait_for_pods_ready.recovery_timeout == timedelta(0)


def test_the_cache_sync_timeout_may_be_nanoseconds_as_go_writes_it() -> None:
    assert loads(HEAD + "controller: {cacheSyncTimeout: 90000000000}\n").controller.cache_sync_timeout == timedelta(
        seconds=90
    )


def test_the_job_controller_section_gives_the_options_of_the_job_controller() -> None:
    assert KueueConfig().job_controller.options() == JobControllerOptions()
    config = loads(HEAD + "jobController: {manage: ManagedBy, podFailureBackoffBase: 500ms, concurrentSyncs: 9}\n")
    assert config.job_controller.options() == JobControllerOptions(
        manage="ManagedBy", backoff_base=0.5, concurrent_syncs=9
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.yaml: cannot be read: No such file or directory"):
        load(tmp_path / "absent.yaml")


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"binary\.yaml: not UTF-8 text"):
        load(tmp_path / "binary.yaml")


def imported_with(module: str) -> set[str]:
    command = f"import sys, {module}; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


def test_importing_the_configuration_imports_no_asyncio_or_wire_types() -> None:
    assert {"msgspec", "asyncio", "aiohttp"} & imported_with("queue_manager.configuration") == set()


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["ps", "queues", "submit", "drain", "release", "main", "arguments"])
def test_commands_that_read_no_configuration_do_not_import_pydantic(command: str) -> None:
    """Importing it takes longer than the commands take to start."""
    assert {"pydantic", "queue_manager.configuration"} & imported_with(f"queue_manager.cli.{command}") == set()


@pytest.mark.parametrize("word", ["true", "yes", "On", "TRUE"])
def test_booleans_are_those_of_yaml_1_1(word: str) -> None:
    """As in Kueue."""
    assert loads(f"{HEAD}manageJobsWithoutQueueName: {word}\n", "f").manage_jobs_without_queue_name


@pytest.mark.parametrize(("text", "seconds"), [("0x10", 16), ("010", 8), ("1_000", 1000), ("+7", 7), ("0b11", 3)])
def test_an_integer_has_the_value_it_has_in_yaml_1_1(text: str, seconds: int) -> None:
    """As in Kueue: a leading 0 is octal."""
    config = loads(f"{HEAD}waitForPodsReady: {{requeuingStrategy: {{backoffBaseSeconds: {text}}}}}\n", "f")
    assert config.wait_for_pods_ready is not None
    assert config.wait_for_pods_ready.requeuing_strategy.backoff_base_seconds == seconds


def test_the_refusal_of_a_feature_gate_names_the_one_that_has_an_effect() -> None:
    assert problems(f"{HEAD}featureGates: {{Nonsense: true}}\n") == [
        "f:3: featureGates[Nonsense]: unrecognized feature gate; "
        "remove it, in Sluice only DisableWaitForPodsReady switches anything"
    ]


@pytest.mark.parametrize("text", ["- " * 100_000, "a: " + "[" * 100_000, "? " * 100_000])
def test_a_deeply_nested_file_is_refused(text: str) -> None:
    assert problems(text) == ["f:1: not YAML: nested more than 100 levels deep; a Configuration is a YAML mapping"]


def test_a_mapping_may_be_merged_into_another_whose_own_fields_count() -> None:
    """As in Kueue: fields beside `<<` take precedence over merged ones, and the first of several merges over the
    others.
    """
    gpu = "    - &gpu {input: example.com/a, strategy: Replace, outputs: &out {example.com/c: 2}}\n"
    more = "    - {<<: *gpu, input: example.com/b}\n"
    more += "    - {<<: [{input: example.com/d}, *gpu], outputs: {<<: *out, x: 1}}\n"
    found = loads(HEAD + "resources:\n  transformations:\n" + gpu + more, "f").resources.transformations
    assert [(t.input, t.strategy, dict(t.outputs)) for t in found] == [
        ("example.com/a", "Replace", {"example.com/c": "2"}),
        ("example.com/b", "Replace", {"example.com/c": "2"}),
        ("example.com/d", "Replace", {"x": "1", "example.com/c": "2"}),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("waitForPodsReady: {<<: 5m}", ['f:3: waitForPodsReady.<<: "5m" is a string; must be a mapping or a list of']),
        ("health: &h {a: 1}\nmetrics:\n  <<: *h", ["f:3: health.a: unknown field;", "f:3: metrics.a: unknown field;"]),
        ("health: &h {<<: *h, a: 1}", ["f:3: health.a: unknown field;"]),
    ],
)
def test_a_mistake_in_a_merged_mapping_has_the_line_where_it_is_written(body: str, expected: list[str]) -> None:
    found = problems(HEAD + body + "\n")
    assert len(found) == len(expected)
    assert all(said.startswith(text) for said, text in zip(found, expected, strict=True))


def test_a_process_of_listed_namespaces_manages_its_own_if_that_is_listed() -> None:
    labels = {"kubernetes.io/metadata.name": "team"}
    apart = loads("", own_namespace="team").managed_jobs_namespace_selector
    listed = loads("", own_namespace="team", namespaces=["team"]).managed_jobs_namespace_selector
    assert (apart.matches(labels), listed.matches(labels)) == (False, True)
    assert not listed.matches({"kubernetes.io/metadata.name": "kube-system"})
