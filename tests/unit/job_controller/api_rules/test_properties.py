"""Every object that decodes as a Job can be defaulted and validated."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from job_controller.api_rules import defaults, status_validation, validation
from job_controller.api_rules.pod_templates import default_pod, default_pod_spec, validate_pod_spec
from tests.examples import examples

Strategy = st.SearchStrategy[Any]

WORDS = st.sampled_from(
    ["", "a", "main", "Never", "Always", "Indexed", "True", "In", "Exists", "0-3", "x y", "ü", "1Gi"]
)
TEXTS: Strategy = WORDS | st.text(max_size=4)
NUMBERS: Strategy = st.sampled_from([-1, 0, 1, 3, 100_001, 2**31 - 1]) | st.integers(-(2**31), 2**31 - 1)
FLAGS: Strategy = st.booleans()
TIMES: Strategy = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00", "2025-12-31T00:00:00Z"])
QUANTITIES: Strategy = st.sampled_from(["1", "500m", "-1", "1Gi", "bad", 2])
MAPS: Strategy = st.dictionaries(TEXTS, TEXTS | st.none(), max_size=2)
AMOUNTS: Strategy = st.dictionaries(
    st.sampled_from(["cpu", "memory", "x.y/z", "odd", "hugepages-2Mi"]), QUANTITIES | st.none(), max_size=2
)


def record(**fields: Strategy) -> Strategy:
    """An object of which any field may be missing or null."""
    return st.fixed_dictionaries({}, optional={name.rstrip("_"): st.none() | value for name, value in fields.items()})


def many(items: Strategy) -> Strategy:
    return st.lists(items | st.none(), max_size=2)


SELECTOR = record(matchLabels=MAPS, matchExpressions=many(record(key=TEXTS, operator=TEXTS, values=many(TEXTS))))
TERM = record(
    matchExpressions=many(record(key=TEXTS, operator=TEXTS, values=many(TEXTS))),
    matchFields=many(record(key=TEXTS, operator=TEXTS, values=many(TEXTS))),
)
POD_TERM = record(labelSelector=SELECTOR, topologyKey=TEXTS, namespaces=many(TEXTS), namespaceSelector=SELECTOR)
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
POD_AFFINITY = record(**{REQUIRED: many(POD_TERM), PREFERRED: many(record(weight=NUMBERS, podAffinityTerm=POD_TERM))})
AFFINITY = record(
    nodeAffinity=record(
        **{REQUIRED: record(nodeSelectorTerms=many(TERM)), PREFERRED: many(record(weight=NUMBERS, preference=TERM))}
    ),
    podAffinity=POD_AFFINITY,
    podAntiAffinity=POD_AFFINITY,
)
HANDLER = {
    "exec": record(command=many(TEXTS)),
    "httpGet": record(path=TEXTS, port=NUMBERS | TEXTS, scheme=TEXTS),
    "grpc": record(port=NUMBERS, service=TEXTS),
    "tcpSocket": record(port=NUMBERS | TEXTS),
}
PROBE = record(successThreshold=NUMBERS, terminationGracePeriodSeconds=NUMBERS, periodSeconds=NUMBERS, **HANDLER)
FIELD = record(apiVersion=TEXTS, fieldPath=TEXTS | st.sampled_from(["metadata.name", "metadata.labels['a']"]))
FILES = many(record(key=TEXTS, path=TEXTS, mode=NUMBERS, fieldRef=FIELD, resourceFieldRef=record(resource=TEXTS)))
RESOURCES = record(limits=AMOUNTS, requests=AMOUNTS, claims=many(record(name=TEXTS)))
CONTAINER = record(
    name=TEXTS,
    image=TEXTS,
    command=many(TEXTS),
    restartPolicy=TEXTS,
    imagePullPolicy=TEXTS,
    terminationMessagePolicy=TEXTS,
    ports=many(record(name=TEXTS, containerPort=NUMBERS, hostPort=NUMBERS, protocol=TEXTS)),
    env=many(
        record(
            name=TEXTS,
            value=TEXTS,
            valueFrom=record(
                fieldRef=FIELD,
                resourceFieldRef=record(resource=TEXTS, divisor=QUANTITIES),
                configMapKeyRef=record(key=TEXTS),
                fileKeyRef=record(key=TEXTS),
            ),
        )
    ),
    envFrom=many(record(prefix=TEXTS, configMapRef=record(name=TEXTS), secretRef=record(name=TEXTS))),
    resources=RESOURCES,
    volumeMounts=many(record(name=TEXTS, mountPath=TEXTS, subPath=TEXTS, subPathExpr=TEXTS, mountPropagation=TEXTS)),
    livenessProbe=PROBE,
    readinessProbe=PROBE,
    lifecycle=record(preStop=record(**HANDLER), stopSignal=TEXTS),
    securityContext=record(runAsUser=NUMBERS, privileged=FLAGS, allowPrivilegeEscalation=FLAGS),
)
VOLUME = record(
    name=TEXTS,
    emptyDir=record(sizeLimit=QUANTITIES),
    hostPath=record(path=TEXTS, type=TEXTS),
    secret=record(secretName=TEXTS, defaultMode=NUMBERS, items=FILES),
    configMap=record(name=TEXTS, items=FILES),
    downwardAPI=record(items=FILES),
    ephemeral=record(volumeClaimTemplate=record(spec=record(volumeMode=TEXTS))),
    nfs=record(server=TEXTS, path=TEXTS),
    projected=record(
        sources=many(
            record(
                serviceAccountToken=record(path=TEXTS, expirationSeconds=NUMBERS),
                downwardAPI=record(items=FILES),
                secret=record(name=TEXTS, items=FILES),
            )
        )
    ),
)
POD_SPEC = record(
    containers=many(CONTAINER),
    initContainers=many(CONTAINER),
    ephemeralContainers=many(CONTAINER),
    volumes=many(VOLUME),
    restartPolicy=TEXTS,
    dnsPolicy=TEXTS | st.just("None"),
    dnsConfig=record(nameservers=many(TEXTS), searches=many(TEXTS), options=many(record(name=TEXTS))),
    hostNetwork=FLAGS,
    hostUsers=FLAGS,
    nodeSelector=MAPS,
    affinity=AFFINITY,
    tolerations=many(record(key=TEXTS, operator=TEXTS, value=TEXTS, effect=TEXTS, tolerationSeconds=NUMBERS)),
    schedulingGates=many(record(name=TEXTS)),
    readinessGates=many(record(conditionType=TEXTS)),
    topologySpreadConstraints=many(record(maxSkew=NUMBERS, topologyKey=TEXTS, labelSelector=SELECTOR)),
    hostAliases=many(record(ip=TEXTS, hostnames=many(TEXTS))),
    resourceClaims=many(record(name=TEXTS, resourceClaimName=TEXTS, resourceClaimTemplateName=TEXTS)),
    securityContext=record(fsGroup=NUMBERS, supplementalGroups=many(NUMBERS)),
    activeDeadlineSeconds=NUMBERS,
    priorityClassName=TEXTS,
    preemptionPolicy=TEXTS,
    overhead=AMOUNTS,
    resources=RESOURCES,
    os=record(name=TEXTS),
    serviceAccount=TEXTS,
)
METADATA = record(
    name=TEXTS,
    generateName=TEXTS,
    namespace=TEXTS,
    labels=MAPS,
    annotations=MAPS,
    finalizers=many(TEXTS),
    ownerReferences=many(record(apiVersion=TEXTS, kind=TEXTS, name=TEXTS, uid=TEXTS, controller=FLAGS)),
    deletionTimestamp=TIMES,
)
SPEC = record(
    parallelism=NUMBERS,
    completions=NUMBERS,
    activeDeadlineSeconds=NUMBERS,
    backoffLimit=NUMBERS,
    backoffLimitPerIndex=NUMBERS,
    maxFailedIndexes=NUMBERS,
    completionMode=TEXTS,
    suspend=FLAGS,
    manualSelector=FLAGS,
    managedBy=TEXTS,
    podReplacementPolicy=TEXTS,
    selector=SELECTOR,
    podFailurePolicy=record(
        rules=many(
            record(
                action=TEXTS,
                onExitCodes=record(operator=TEXTS, containerName=TEXTS, values=many(NUMBERS)),
                onPodConditions=many(record(type=TEXTS, status=TEXTS)),
            )
        )
    ),
    successPolicy=record(rules=many(record(succeededIndexes=TEXTS, succeededCount=NUMBERS))),
    template=record(metadata=record(labels=MAPS, annotations=MAPS), spec=POD_SPEC),
)
STATUS = record(
    active=NUMBERS,
    succeeded=NUMBERS,
    failed=NUMBERS,
    ready=NUMBERS,
    terminating=NUMBERS,
    startTime=TIMES,
    completionTime=TIMES,
    completedIndexes=TEXTS,
    failedIndexes=TEXTS,
    uncountedTerminatedPods=record(succeeded=many(TEXTS), failed=many(TEXTS)),
    conditions=many(
        record(
            type=st.sampled_from(["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended"]),
            status=st.sampled_from(["True", "False"]),
            lastTransitionTime=TIMES,
        )
    ),
)
JOB = record(metadata=METADATA, spec=SPEC, status=STATUS)
CHECK = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@CHECK
@given(JOB)
def test_any_job_can_be_created_or_refused(job: Any) -> None:
    defaults.prepare_create(job)
    json.dumps([str(error) for error in validation.validate_create(job)])
    validation.warnings(job, None)


@CHECK
@given(JOB)
def test_defaulting_twice_changes_nothing(job: Any) -> None:
    defaults.prepare_create(job)
    once = copy.deepcopy(job)
    defaults.prepare_create(job)
    assert job == once
    defaults.prepare_update(job, once)
    assert job == once


@CHECK
@given(JOB, JOB)
def test_any_update_can_be_accepted_or_refused(new: Any, old: Any) -> None:
    defaults.prepare_create(old)
    defaults.prepare_update(new, old)
    json.dumps([str(error) for error in validation.validate_update(new, old)])
    validation.warnings(new, old)


@CHECK
@given(JOB)
def test_an_update_that_changes_nothing_breaks_no_immutability(job: Any) -> None:
    defaults.prepare_create(job)
    errors = validation.validate_update(copy.deepcopy(job), job)
    assert not [error for error in errors if "immutable" in error.message]


@CHECK
@given(JOB, STATUS, STATUS)
def test_any_status_can_be_accepted_or_refused(job: Any, new: Any, old: Any) -> None:
    defaults.prepare_create(job)
    before, after = {**job, "status": old}, {**copy.deepcopy(job), "status": new}
    defaults.prepare_status(before, before)
    defaults.prepare_status(after, before)
    json.dumps([str(error) for error in status_validation.validate_status_update(after, before)])


@CHECK
@given(POD_SPEC)
@example({"containers": [], "resources": {"limits": {"x.y/z": "0"}}})
def test_any_pod_spec_can_be_defaulted_and_judged(spec: Any) -> None:
    default_pod(spec)
    once = copy.deepcopy(spec)
    default_pod(spec)
    assert spec == once
    default_pod_spec(spec)
    assert spec == once
    json.dumps([str(error) for error in validate_pod_spec(spec, "spec", in_pod=True)])
