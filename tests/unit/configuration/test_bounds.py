"""Bounds of numbers and lists: the bound is accepted, one beyond is not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import yaml

from job_controller.api_rules import names
from job_controller.json_tree import Json
from queue_manager.configuration import ConfigurationError, loads

BASE = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}


def problems(tree: Json) -> list[str]:
    try:
        loads(yaml.safe_dump({**BASE, **tree}))
    except ConfigurationError as error:
        return [f"{problem.field}: {problem.message}" for problem in error.problems]
    return []


def labels(kinds: Iterable[str], **more: Json) -> Json:
    entries = []
    for i, kind in enumerate(kinds):
        values = {"trackedValues": ["a"]} if kind == "Workload" else {}
        entries.append({"name": f"l{i}", "sourceKind": kind, **values, **more})
    return {"metrics": {"customLabels": entries}}


def devices(mappings: int, classes: int = 1) -> Json:
    names = [f"c{i}" for i in range(classes)]
    entries = [{"name": f"d{i}", "deviceClassNames": names} for i in range(mappings)]
    return {"resources": {"deviceClassMappings": entries}}


def election(lease: str, renew: str, retry: str) -> Json:
    return {
        "leaderElection": {"leaderElect": True, "leaseDuration": lease, "renewDeadline": renew, "retryPeriod": retry}
    }


ALL_KINDS = ["ClusterQueue"] * 6 + ["LocalQueue"] * 6 + ["Cohort"] * 6 + ["Workload"] * 2
TOO_MANY = "one label too many of"

AT_THE_BOUND: list[Json] = [
    devices(16),
    devices(1, classes=8),
    labels(ALL_KINDS),
    labels(["LocalQueue"], trackedValues=[str(i) for i in range(16)]),
    labels(["Workload"], trackedValues=[str(i) for i in range(12)]),
    labels(["Cohort"], trackedValues=[]),
    labels(["Cohort"], sourceLabelKey="a"),
    labels(["Cohort"], sourceAnnotationKey="a"),
    election("3s", "2s", "1s"),
    {"leaderElection": {"resourceLock": "leases", "resourceName": "a.b", "resourceNamespace": "c"}},
    {"jobController": {"podFailureBackoffBase": "5s", "podFailureBackoffMax": "5s"}},
    {"visibilityServer": {"bindAddress": "::1"}},
    {"internalCertManagement": {"enable": True, "webhookServiceName": "service-1"}},
    {"tls": {"minVersion": "VersionTLS12", "cipherSuites": ["TLS_AES_128_GCM_SHA256"]}},
    {"metrics": {"bindAddress": ":65535"}, "health": {"healthProbeBindAddress": "[::1]:0"}},
]


@pytest.mark.parametrize("tree", AT_THE_BOUND, ids=range(len(AT_THE_BOUND)))
def test_a_value_at_its_bound_is_accepted(tree: Json) -> None:
    assert problems(tree) == []


BEYOND: list[tuple[Json, list[str]]] = [
    (devices(17), ["resources.deviceClassMappings: 17 entries; must have at most 16"]),
    (
        devices(1, classes=9),
        ["resources.deviceClassMappings[0].deviceClassNames: too many entries; must have at most 8"],
    ),
    (
        {"resources": {"deviceClassMappings": [{"name": "d"}, {"name": "d"}]}},
        ['resources.deviceClassMappings[1].name: "d" is given twice; give it once'],
    ),
    ({"resources": {"transformations": [{"strategy": "Retain"}]}}, ["resources.transformations[0].input: is missing;"]),
    (
        labels([*ALL_KINDS, "ClusterQueue"]),
        [
            "metrics.customLabels: 21 entries; must have at most 20",
            f"metrics.customLabels[20]: {TOO_MANY} ClusterQueue; must have at most 6",
        ],
    ),
    (labels(["Workload"] * 4), [f"metrics.customLabels[2]: {TOO_MANY} Workload; must have at most 2"]),
    (labels(["Cohort"] * 2, name="l"), ['metrics.customLabels[1].name: "l" is given twice; give it once']),
    (labels(["Cohort"], name="1"), ['metrics.customLabels[0].name: "1" is not a label name; must match ']),
    (
        labels(["Cohort"], sourceLabelKey="a", sourceAnnotationKey="a"),
        ["metrics.customLabels[0]: has sourceLabelKey and sourceAnnotationKey; must have one of them at most"],
    ),
    (
        labels(["LocalQueue"], trackedValues=[str(i) for i in range(17)]),
        ["metrics.customLabels[0].trackedValues: 17 values; must have at most 16 values"],
    ),
    (
        labels(["Workload"], trackedValues=[str(i) for i in range(13)]),
        ["metrics.customLabels[0].trackedValues: 13 values; must have 1-12 values"],
    ),
    (
        labels(["Workload"], trackedValues=[]),
        ["metrics.customLabels[0].trackedValues: 0 values; must have 1-12 values"],
    ),
    (election("2s", "2s", "1s"), ["leaderElection.renewDeadline: is too long; must be less than leaseDuration"]),
    (
        {"leaderElection": {"resourceLock": "x"}},
        ['leaderElection.resourceLock: "x" is not a kind of lock; must be "leases"'],
    ),
    (
        {"leaderElection": {"resourceName": "a_b", "resourceNamespace": "a.b"}},
        [
            f"leaderElection.resourceName: is not a Lease name; {names.dns_subdomain('a_b')[0]}",
            f"leaderElection.resourceNamespace: is not a namespace name; {names.dns_label('a.b')[0]}",
        ],
    ),
    (election("3s", "2s", "2s"), ["leaderElection.retryPeriod: is too long; must be less than renewDeadline"]),
    (
        {"visibilityServer": {"bindAddress": "here"}},
        ['visibilityServer.bindAddress: "here" is not an address; must be a valid IP address'],
    ),
    (
        {"tls": {"minVersion": "VersionTLS13", "cipherSuites": ["TLS_AES_128_GCM_SHA256"]}},
        ["tls.cipherSuites: cannot be chosen with VersionTLS13; must be omitted then"],
    ),
    ({"tls": {"minVersion": "VersionTLS11"}}, ['tls: "VersionTLS11" is not a minVersion;']),
    ({"tls": {"cipherSuites": ["RC4"]}}, ['tls.cipherSuites[0]: "RC4" is not a secure cipher suite;']),
    ({"webhook": {"host": "example.com"}}, ['webhook.host: "example.com" is not an address;']),
    (
        {"internalCertManagement": {"enable": True, "webhookServiceName": "1service"}},
        [f"internalCertManagement.webhookServiceName: is not a Service name; {names.dns_1035_label('1service')[0]}"],
    ),
    ({"metrics": {"bindAddress": ":65536"}}, ['metrics.bindAddress: ":65536" is not an address;']),
]


@pytest.mark.parametrize(("tree", "expected"), BEYOND, ids=[expected[0] for _, expected in BEYOND])
def test_a_value_one_beyond_its_bound_is_refused(tree: Json, expected: list[str]) -> None:
    found = problems(tree)
    assert len(found) == len(expected), found
    assert all(problem.startswith(start) for problem, start in zip(found, expected, strict=True)), found


def test_election_periods_are_not_validated_without_election() -> None:
    tree = election("1s", "2s", "3s")
    tree["leaderElection"]["leaderElect"] = False
    assert problems(tree) == []
