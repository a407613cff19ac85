"""Pod specs: defaults, and the errors with their messages."""

from __future__ import annotations

from typing import Any

import pytest

from job_controller.api_rules.names import qualified_name
from job_controller.api_rules.pod_defaults import is_latest
from job_controller.api_rules.pod_templates import default_pod, default_pod_spec, validate_pod_spec, validate_template


def pod(**changes: Any) -> Any:
    return {"containers": [{"name": "main", "image": "a"}], "restartPolicy": "Never", **changes}


def container(**changes: Any) -> Any:
    return pod(containers=[{"name": "main", "image": "a", **changes}])


def errors(spec: Any, *, in_pod: bool = False) -> list[str]:
    default_pod_spec(spec)
    return [str(error) for error in validate_pod_spec(spec, "spec", in_pod=in_pod)]


MAIN = "spec.containers[0]"
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
SLEEP = "must be non-negative and less than terminationGracePeriodSeconds (30)"
REFUSED: list[tuple[Any, list[str]]] = [
    (
        container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"key": "k"}}}]),
        [f'{MAIN}.env[0].valueFrom.configMapKeyRef.name: Invalid value: "": {SUBDOMAIN}'],
    ),
    (
        container(lifecycle={"preStop": {"sleep": {"seconds": -1}}, "postStart": {"sleep": {"seconds": 31}}}),
        [
            f"{MAIN}.lifecycle.preStop.sleep: Invalid value: -1: {SLEEP}",
            f"{MAIN}.lifecycle.postStart.sleep: Invalid value: 31: {SLEEP}",
        ],
    ),
    (
        container(resources={"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}}),
        [
            f'{MAIN}.resources.limits[hugepages-2Mi]: Invalid value: "3Mi": '
            "3Mi is not positive integer multiple of hugepages-2Mi"
        ],
    ),
    (
        container(securityContext={"procMount": "Open"}),
        [f'{MAIN}.securityContext.procMount: Unsupported value: "Open": supported values: "Default", "Unmasked"'],
    ),
    (
        container(securityContext={"procMount": "Unmasked"}),
        [f'{MAIN}.securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`'],
    ),
    (
        pod(securityContext={"sysctls": [{"name": "A b", "value": "1"}, {"value": "1"}]}),
        [
            'spec.securityContext.sysctls[0].name: Invalid value: "A b": must have at most 253 characters and match '
            r"regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            "spec.securityContext.sysctls[1].name: Required value",
        ],
    ),
    (
        pod(hostIPC=True, securityContext={"sysctls": [{"name": "kernel/msgmax", "value": "1"}]}),
        [
            'spec.securityContext.sysctls[0].name: Invalid value: "kernel/msgmax": '
            "may not be specified when 'hostIPC' is true"
        ],
    ),
    (
        {
            **container(resources={"requests": {"cpu": "500m"}, "limits": {"memory": "3Gi"}}),
            "initContainers": [
                {"name": "sidecar", "image": "a", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                {"name": "first", "image": "a", "resources": {"requests": {"cpu": "700m"}}},
            ],
            "resources": {"requests": {"cpu": "1600m"}, "limits": {"memory": "2Gi", "x.y/z": "1"}},
        },
        [
            'spec.resources.limits[x.y/z]: Unsupported value: "x.y/z": supported values: "cpu", "hugepages-", "memory"',
            'spec.resources.requests[cpu]: Invalid value: "1600m": must be greater than or equal to aggregate '
            "container requests of 1700m",
            'spec.resources.containers[0][memory].limits: Invalid value: "3Gi": must be less than or equal to pod '
            "limits of 2Gi",
        ],
    ),
    (pod(os={"name": "beos"}), ['spec.os: Unsupported value: "beos": supported values: "linux", "windows"']),
    (pod(containers=[]), ["spec.containers: Required value"]),
    (pod(containers=[{}]), [f"{MAIN}.name: Required value", f"{MAIN}.image: Required value"]),
    (pod(containers=[{"name": "Main", "image": "a"}]), [f'{MAIN}.name: Invalid value: "Main": {LABEL}']),
    (
        container(imagePullPolicy="Sometimes"),
        [
            f'{MAIN}.imagePullPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "IfNotPresent", "Never"'
        ],
    ),
    (
        container(ports=[{"containerPort": 0}, {"containerPort": 70000, "protocol": "tcp"}]),
        [
            f"{MAIN}.ports[0].containerPort: Required value",
            f"{MAIN}.ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            f'{MAIN}.ports[1].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"',
        ],
    ),
    (
        container(ports=[{"name": "http", "containerPort": 1}, {"name": "http", "containerPort": 2}]),
        [f'{MAIN}.ports[1].name: Duplicate value: "http"'],
    ),
    (
        container(ports=[{"name": "a-very-long-port-name", "containerPort": 1}]),
        [f'{MAIN}.ports[0].name: Invalid value: "a-very-long-port-name": must be no more than 15 characters'],
    ),
    (
        container(ports=[{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]),
        [f'{MAIN}.ports[1].hostPort: Duplicate value: "TCP//80"'],
    ),
    (container(env=[{"value": "x"}]), [f"{MAIN}.env[0].name: Required value"]),
    (
        container(env=[{"name": "a=b"}]),
        [
            f'{MAIN}.env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of '
            "printable ASCII characters other than '='"
        ],
    ),
    (
        container(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        [f'{MAIN}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
    ),
    (
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]),
        [
            f'{MAIN}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nope": '
            "error converting fieldPath: field label not supported: spec.nope"
        ],
    ),
    (
        container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]),
        [f"{MAIN}.env[0].valueFrom.secretKeyRef.key: Required value"],
    ),
    (
        container(resources={"requests": {"cpu": "3"}, "limits": {"cpu": "2000m"}}),
        [f'{MAIN}.resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2'],
    ),
    (
        container(resources={"requests": {"memory": "-1Gi"}}),
        [f'{MAIN}.resources.requests[memory]: Invalid value: "-1Gi": must be greater than or equal to 0'],
    ),
    (
        container(resources={"limits": {"gpu": "1"}}),
        [
            f'{MAIN}.resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
            f'{MAIN}.resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers',
        ],
    ),
    (
        container(resources={"requests": {"nvidia.com/gpu": "1"}}),
        [f"{MAIN}.resources.limits: Required value: Limit must be set for non overcommitable resources"],
    ),
    (
        container(resources={"limits": {"nvidia.com/gpu": "500m"}}),
        [f'{MAIN}.resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer'],
    ),
    (
        container(resources={"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}),
        [f'{MAIN}.resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2'],
    ),
    (
        container(resources={"limits": {"hugepages-2Mi": "2Mi"}}),
        [f"{MAIN}.resources: Forbidden: HugePages require cpu or memory"],
    ),
    (container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), [f'{MAIN}.volumeMounts[0].name: Not found: "v"']),
    (
        pod(
            volumes=[{"name": "v"}],
            containers=[
                {
                    "name": "main",
                    "image": "a",
                    "volumeMounts": [
                        {"name": "v", "mountPath": "/v"},
                        {"name": "v", "mountPath": "/v", "subPath": "../x"},
                    ],
                }
            ],
        ),
        [
            f'{MAIN}.volumeMounts[1].mountPath: Invalid value: "/v": must be unique',
            f"{MAIN}.volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'",
        ],
    ),
    (pod(volumes=[{"name": "v"}, {"name": "v"}]), ['spec.volumes[1].name: Duplicate value: "v"']),
    (
        pod(volumes=[{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]),
        ["spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"],
    ),
    (pod(volumes=[{"name": "v", "hostPath": {}}]), ["spec.volumes[0].hostPath.path: Required value"]),
    (
        pod(volumes=[{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}]),
        [
            "spec.volumes[0].secret.defaultMode: Invalid value: 512: "
            "must be a number between 0 and 0777 (octal), both inclusive"
        ],
    ),
    (
        container(livenessProbe={"exec": {"command": ["x"]}, "successThreshold": 2}),
        [f"{MAIN}.livenessProbe.successThreshold: Invalid value: 2: must be 1"],
    ),
    (container(readinessProbe={}), [f"{MAIN}.readinessProbe: Required value: must specify a handler type"]),
    (
        pod(initContainers=[{"name": "main", "image": "a", "readinessProbe": {"tcpSocket": {"port": 1}}}]),
        [
            'spec.initContainers[0].name: Duplicate value: "main"',
            "spec.initContainers[0].readinessProbe: Forbidden: "
            "may not be set for init containers without restartPolicy=Always",
        ],
    ),
    (
        pod(restartPolicy="Sometimes"),
        ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
    ),
    (
        pod(activeDeadlineSeconds=0),
        ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    ),
    (pod(subdomain="A"), [f'spec.subdomain: Invalid value: "A": {LABEL}']),
    (
        pod(tolerations=[{"operator": "Equal"}]),
        [
            'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, '
            'which means "match all values and all keys"'
        ],
    ),
    (
        pod(tolerations=[{"key": "k", "operator": "Near", "effect": "No"}]),
        [
            'spec.tolerations[0].operator: Unsupported value: "Near": supported values: "Equal", "Exists"',
            'spec.tolerations[0].effect: Unsupported value: "No": '
            'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ],
    ),
    (
        pod(tolerations=[{"key": "k", "tolerationSeconds": 1}]),
        ["spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
    ),
    (
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
        [
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
            "Required value: must have at least one node selector term"
        ],
    ),
    (
        pod(affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0}]}}),
        [
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: "
            "Invalid value: 0: must be in the range 1-100",
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: "
            "Required value: can not be empty",
            *(
                "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm"
                f'.topologyKey: Invalid value: "": {text}'
                for text in qualified_name("")
            ),
        ],
    ),
    (
        pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
        ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
    ),
    (
        pod(dnsPolicy="None"),
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    ),
    (
        pod(preemptionPolicy="Maybe"),
        ['spec.preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"'],
    ),
    (
        pod(resourceClaims=[{"name": "c"}]),
        [
            'spec.resourceClaims[0]: Invalid value: {"name":"c"}: '
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        ],
    ),
]


@pytest.mark.parametrize(("spec", "texts"), REFUSED)
def test_what_is_wrong_is_refused_in_these_words(spec: Any, texts: list[str]) -> None:
    assert errors(spec) == texts


@pytest.mark.parametrize(
    "spec",
    [
        pod(),
        pod(terminationGracePeriodSeconds=-1),
        pod(tolerations=[{"operator": "Exists"}], nodeSelector={"zone": "a"}, priorityClassName="high"),
        container(resources={"requests": {"cpu": "100m"}, "limits": {"cpu": 1, "nvidia.com/gpu": "1"}}),
        container(env=[{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a.b/c']"}}}]),
        container(envFrom=[{"configMapRef": {"name": "c"}}], ports=[{"containerPort": 80, "name": "http"}]),
        pod(volumes=[{"name": "x", "csi": {"driver": "d"}}]),
    ],
)
def test_what_is_right_is_accepted(spec: Any) -> None:
    assert errors(spec) == []


def test_an_image_with_blanks_is_refused_in_a_pod_only() -> None:
    assert errors(container(image=" a")) == []
    text = 'spec.containers[0].image: Invalid value: " a": must not have leading or trailing whitespace'
    assert errors(container(image=" a"), in_pod=True) == [text]


def test_a_gated_pod_cannot_name_its_node() -> None:
    gated = pod(nodeName="n", schedulingGates=[{"name": "g"}])
    assert errors(gated) == []
    assert errors(gated, in_pod=True) == [
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    ]


def test_ephemeral_containers_do_not_belong_into_a_template() -> None:
    spec = pod(ephemeralContainers=[{"name": "e", "image": "a"}])
    default_pod_spec(spec)
    assert [str(error) for error in validate_template({"spec": spec}, "template")] == [
        "template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"
    ]


def test_requests_follow_limits_in_a_pod_and_not_in_a_template() -> None:
    template, real = container(resources={"limits": {"cpu": "1"}}), container(resources={"limits": {"cpu": "1"}})
    default_pod_spec(template)
    default_pod(real)
    assert template["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert real["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert real["enableServiceLinks"] is True


def test_requests_of_a_pod_with_limits_are_those_of_its_containers_or_the_limits() -> None:
    spec = container(resources={"limits": {"cpu": "500m"}}) | {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    default_pod(spec)
    assert spec["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_ports_on_the_host_network_are_host_ports() -> None:
    spec = container(ports=[{"containerPort": 80}])
    spec["hostNetwork"] = True
    default_pod_spec(spec)
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_values_that_say_nothing_are_dropped_and_those_that_say_something_kept() -> None:
    spec = container(command=[], args=None, stdin=False, env=[{"name": "A", "value": ""}])
    spec |= {"nodeSelector": {"a": ""}, "hostNetwork": False, "affinity": {}, "priority": 0, "serviceAccountName": ""}
    default_pod_spec(spec)
    main = spec["containers"][0]
    assert not {"command", "args", "stdin"} & main.keys()
    assert main["env"] == [{"name": "A"}]
    assert spec["nodeSelector"] == {"a": ""}
    assert spec["affinity"] == {}
    assert spec["priority"] == 0
    assert not {"hostNetwork", "serviceAccountName"} & spec.keys()


@pytest.mark.parametrize(
    ("image", "latest"),
    [
        ("app", True),
        ("app:latest", True),
        ("app:1", False),
        ("host:5000/app", True),
        ("host:5000/app:2", False),
        ("app@sha256:0", False),
        ("app:latest@sha256:0", False),
    ],
)
def test_only_latest_is_pulled_always(image: str, latest: bool) -> None:
    assert is_latest(image) is latest
