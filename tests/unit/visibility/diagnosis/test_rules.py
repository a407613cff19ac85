"""What `sluice doctor` finds, rule by rule, and that a healthy cluster has no findings."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from job_controller.model import Condition, Job, JobStatus, Key, Object, ObjectMeta, OwnerReference, Pod, PodStatus
from queue_manager.api.events import Event, Reference
from queue_manager.api.keys import FINALIZER
from queue_manager.api.types import (
    Admission,
    AdmissionCheckRule,
    AdmissionChecksStrategy,
    Attempt,
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    CohortSpec,
    FlavorQuotas,
    LocalQueue,
    LocalQueueSpec,
    PodSetAssignment,
    QueueStatus,
    RequeueHistory,
    RequeueState,
    ResourceFlavor,
    ResourceFlavorSpec,
    ResourceGroup,
    ResourceQuota,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.kueue_config import RequeuingStrategy, WaitForPodsReady
from queue_manager.visibility.diagnosis.examination import confirmed, examine, needs_confirmation
from queue_manager.visibility.diagnosis.image_pulls import image_pulls
from queue_manager.visibility.diagnosis.problem import Problem
from queue_manager.visibility.diagnosis.snapshot import (
    CertificateFacts,
    ClockFacts,
    ClusterSnapshot,
    ConversionFacts,
    DeploymentFacts,
    HistoryFacts,
    LeaseFacts,
    LeftConfiguration,
    NodeFacts,
    WebhookServiceFacts,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


def cluster_queue(
    name: str = "cq", flavor: str = "default", nominal: str = "4", borrowing: str | None = None, cohort: str = ""
) -> ClusterQueue:
    quota = ResourceQuota(name="cpu", nominal_quota=nominal, borrowing_limit=borrowing)
    group = ResourceGroup(covered_resources=("cpu",), flavors=(FlavorQuotas(name=flavor, resources=(quota,)),))
    return ClusterQueue(
        metadata=ObjectMeta(name=name), spec=ClusterQueueSpec(resource_groups=(group,), cohort_name=cohort)
    )


def local_queue(cluster_queue: str = "cq") -> LocalQueue:
    meta = ObjectMeta(name="lq", namespace="team")
    return LocalQueue(metadata=meta, spec=LocalQueueSpec(cluster_queue=cluster_queue))


def flavor(name: str = "default", **labels: str) -> ResourceFlavor:
    return ResourceFlavor(metadata=ObjectMeta(name=name), spec=ResourceFlavorSpec(node_labels=labels))


def workload(*conditions: Condition, job: str = "job-uid", **status: object) -> Workload:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="job", uid=job, controller=True)
    meta = ObjectMeta(name="w", namespace="team", uid="w-uid", owner_references=(owner,))
    return Workload(metadata=meta, status=WorkloadStatus(conditions=conditions, **status))  # type: ignore[arg-type]


def true(type: str, at: datetime = NOW, reason: str = "Any") -> Condition:
    return Condition(type=type, status="True", reason=reason, last_transition_time=at)


def started_after(span: timedelta) -> Workload:
    return workload(true("QuotaReserved"), true("Admitted"), true("PodsReady", NOW + span, "Started"))


def placed_at(at: datetime) -> Pod:
    """A pod of that Workload's Job, which got a node at this time."""
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="job", uid="job-uid", controller=True)
    meta = ObjectMeta(name="p", namespace="team", owner_references=(owner,))
    return Pod(metadata=meta, status=PodStatus(conditions=(true("PodScheduled", at),)))


def config(**settings: object) -> KueueConfig:
    return KueueConfig(wait_for_pods_ready=WaitForPodsReady(**settings))  # type: ignore[arg-type]


def timed_out(pod_cause: str, *conditions: Condition) -> Workload:
    """A Workload whose last attempt ended at the deadline for ready pods."""
    attempt = Attempt(start=NOW, end=NOW + 100 * SECOND, reason="PodsReadyTimeout", pod_cause=pod_cause)
    return workload(*conditions, requeue_history=RequeueHistory(attempts=(attempt,)))


PULLED = 'Successfully pulled image "train:7" in 58.1s (1m35.2s including waiting). Image size: 4012345678 bytes.'
PULLS = list(
    image_pulls(
        Event(involved_object=Reference(kind="Pod", namespace="team", name="p"), reason="Pulled", message=message)
        for message in (PULLED, 'Successfully pulled image "a" in 2s', 'Container image "b" already present on machine')
    )
)
MANAGER, WEBHOOKS = Key("kueue-system", "manager"), Key("kueue-system", "webhooks")
CERTIFICATE = Key("kueue-system", "certificate")
LIMITED = RequeuingStrategy(backoff_limit_count=5)
SHORT = config(timeout=timedelta(seconds=100), requeuing_strategy=LIMITED)
HEALTHY = ClusterSnapshot(
    now=NOW,
    config=KueueConfig(),
    workloads=[started_after(SECOND)],
    pods=[Pod(metadata=ObjectMeta(name="p", namespace="team"))],
    jobs=[Job(metadata=ObjectMeta(name="job", namespace="team", uid="job-uid"))],
    local_queues=[local_queue()],
    cluster_queues=[cluster_queue()],
    cohorts=[],
    flavors=[flavor()],
    checks=[],
    nodes=[NodeFacts("n", {"kind": "a"}, {"cpu": "4"})],
    certificates=[CertificateFacts("the API server", NOW + 31 * DAY, "renew")],
    clocks=[ClockFacts("this machine", SECOND, SECOND)],
    leases=[LeaseFacts("kueue-system/lease", "manager-0", NOW - 2 * SECOND, 15)],
    deployment=DeploymentFacts(MANAGER, 2, 2),
    webhook_services=[WebhookServiceFacts(WEBHOOKS, ("mutating",), is_ready=True)],
)


def deleted(kind: type[Object] = Object, minutes: int = 60, **meta: object) -> Object:
    gone = NOW - timedelta(minutes=minutes)
    fields = {"name": "x", "uid": "x-uid", "finalizers": ("example.com/keeps",), "deletion_timestamp": gone, **meta}
    return kind(metadata=ObjectMeta(**fields))  # type: ignore[arg-type]


def inactive(reason: str, above: str = "a") -> ClusterQueue:
    said = "Can't admit new workloads: Cohort has a cycle."
    active = Condition(type="Active", status="False", reason=reason, message=said, last_transition_time=NOW)
    queue = cluster_queue(cohort=above)
    return ClusterQueue(metadata=queue.metadata, spec=queue.spec, status=QueueStatus(conditions=(active,)))


def cohort(name: str, parent: str, borrowing: str | None = None) -> Cohort:
    groups = cluster_queue(borrowing=borrowing).spec.resource_groups
    return Cohort(metadata=ObjectMeta(name=name), spec=CohortSpec(parent_name=parent, resource_groups=groups))


CHECKED = AdmissionChecksStrategy(admission_checks=(AdmissionCheckRule(name="budget"),))
WITH_CHECK = ClusterQueue(metadata=ObjectMeta(name="cq"), spec=ClusterQueueSpec(admission_checks_strategy=CHECKED))
RETRIED = workload(requeue_state=RequeueState(count=3))
HOLDING = workload(true("QuotaReserved"), job="gone", admission=Admission(cluster_queue="cq"))

LENDER = cluster_queue("other", nominal="2", cohort="all")

IN_DEFAULT = Admission(cluster_queue="cq", pod_set_assignments=(PodSetAssignment(flavors={"cpu": "default"}),))

FOUND = {
    "a LocalQueue without ClusterQueue": (
        {"local_queues": [local_queue("cqq")]},
        ("error", "MissingClusterQueue", "localqueue/lq -n team", "(did you mean cq?)"),
    ),
    "a flavor that does not exist": (
        {"flavors": []},
        ("error", "MissingFlavor", "clusterqueue/cq", "ResourceFlavor default does not exist"),
    ),
    "an admission check that does not exist": (
        {"cluster_queues": [WITH_CHECK]},
        ("error", "MissingAdmissionCheck", "clusterqueue/cq", "AdmissionCheck budget does not exist"),
    ),
    "a ClusterQueue below a cycle of Cohorts": (
        {"cluster_queues": [inactive("CohortCycleDetected")], "cohorts": [cohort("a", "b"), cohort("b", "a")]},
        ("error", "InactiveClusterQueue", "clusterqueue/cq", "Cohort has a cycle, so this queue admits nothing"),
    ),
    "a flavor without nodes": (
        {"flavors": [flavor(kind="b")]},
        ("warning", "FlavorWithoutNodes", "resourceflavor/default", "kind=b"),
    ),
    "a quota above all nodes": (
        {"cluster_queues": [cluster_queue(nominal="4001m")]},
        ("warning", "QuotaAboveNodes", "clusterqueue/cq", "have 4."),
    ),
    "a borrowing limit above what others lend": (
        {
            "cluster_queues": [
                cluster_queue(cohort="all", borrowing="3"),
                cluster_queue("other", nominal="2", cohort="all"),
            ]
        },
        ("warning", "UnreachableBorrowingLimit", "clusterqueue/cq", "lends at most 2"),
    ),
    "no end of retries, in a configuration that somebody wrote": (
        {"config": config(timeout=timedelta(minutes=5))},
        ("warning", "NoRetryLimit", "waitForPodsReady.requeuingStrategy.backoffLimitCount", "retried forever"),
    ),
    "no end of retries, by default, with a Workload that is retried": (
        {"workloads": [RETRIED]},
        ("warning", "NoRetryLimit", "waitForPodsReady.requeuingStrategy.backoffLimitCount", "1 wait for another"),
    ),
    "a start as slow as the timeout": (
        {
            "config": config(timeout=timedelta(seconds=100), requeuing_strategy=LIMITED),
            "workloads": [started_after(90 * SECOND)],
        },
        ("warning", "PodsReadyTimeoutTooShort", "waitForPodsReady.timeout", "took 90s"),
    ),
    "an image pull as slow as the timeout": (
        {"config": SHORT, "image_pulls": PULLS},
        ("warning", "PodsReadyTimeoutTooShort", "waitForPodsReady.timeout", "pulled train:7 for pod team/p in 95s"),
    ),
    "an attempt that ended while its image was pulled": (
        {"config": SHORT, "workloads": [timed_out("ContainerCreating: container main has not started")]},
        ("warning", "PodsReadyTimeoutTooShort", "waitForPodsReady.timeout", "Job team/job did not start"),
    ),
    "a timeout that ends before the first retry": (
        {"config": config(timeout=timedelta(seconds=5), recovery_timeout=5 * SECOND, requeuing_strategy=LIMITED)},
        ("warning", "UnusualSetting", "waitForPodsReady.timeout", "before a failed pod is replaced"),
    ),
    "an attempt that ended before its Job retried": (
        {"config": SHORT, "workloads": [timed_out("exit 3: boom (no retry before the timeout)")]},
        ("warning", "PodsReadyTimeoutTooShort", "waitForPodsReady.timeout", "Job team/job had failed, and were to be"),
    ),
    "an attempt that ended because its image does not exist": (
        {"config": SHORT, "workloads": [timed_out("ErrImagePull: not found")]},
        ("warning", "ImageNotPulled", "job/job -n team", "until the timeout: ErrImagePull: not found."),
    ),
    "an expired certificate": (
        {"certificates": [CertificateFacts("crd/x", NOW - SECOND, "renew")]},
        ("error", "ExpiredCertificate", "crd/x", "expired at 2025-12-31T23:59:59Z"),
    ),
    "a certificate that expires soon": (
        {"certificates": [CertificateFacts("crd/x", NOW + 13 * DAY, "renew")]},
        ("warning", "ExpiringCertificate", "crd/x", "in 13 days"),
    ),
    "a certificate that expires within a day": (
        {"certificates": [CertificateFacts("crd/x", NOW + DAY - 300 * SECOND, "renew")]},
        ("warning", "ExpiringCertificate", "crd/x", "in 23 hours."),
    ),
    "a certificate that expires within an hour": (
        {"certificates": [CertificateFacts("crd/x", NOW + 300 * SECOND, "renew")]},
        ("warning", "ExpiringCertificate", "crd/x", "in less than an hour."),
    ),
    "a certificate that expires tomorrow": (
        {"certificates": [CertificateFacts("crd/x", NOW + DAY, "renew")]},
        ("warning", "ExpiringCertificate", "crd/x", "in 1 day."),
    ),
    "a conversion webhook of another software that fails": (
        {"dead_conversions": [ConversionFacts("x", WEBHOOKS, "it does not answer")]},
        ("error", "DeadConversion", "crd/x", "it does not answer. It calls service/webhooks -n kueue-system."),
    ),
    "a clock that is behind": (
        {"clocks": [ClockFacts("this machine", -20 * SECOND, SECOND)]},
        ("warning", "ClockSkew", "this machine", "20 s behind"),
    ),
    "a clock that is far ahead": (
        {"clocks": [ClockFacts("manager m", 90 * SECOND, 2 * SECOND)]},
        ("error", "ClockSkew", "manager m", "90 s ahead of"),
    ),
    "a history whose database hangs": (
        {"history": HistoryFacts(25.4, 49)},
        ("error", "HistoryStalled", "history (history.url)", "No record has been written for 25 s, and 49 wait"),
    ),
    "a Lease that nobody renews": (
        {"leases": [LeaseFacts("kueue-system/lease", "m", NOW - 61 * SECOND, 15)]},
        ("error", "NoManager", "lease/lease -n kueue-system", "m renewed it 61 s ago"),
    ),
    "a released Lease": (
        {"leases": [LeaseFacts("kueue-system/lease", "", NOW, 15)]},
        ("error", "NoManager", "lease/lease -n kueue-system", "No manager leads"),
    ),
    "a Lease that nobody holds, of a manager whose configuration is unknown": (
        {"leases": [LeaseFacts("kueue-system/lease", "", NOW, 15)], "config": None},
        ("warning", "NoManager", "lease/lease -n kueue-system", "Perhaps no manager runs"),
    ),
    "an installation whose manager never started": (
        {"leases": [], "deployment": DeploymentFacts(MANAGER, 2, 0)},
        ("error", "NoManager", "deployment/manager -n kueue-system", "no pod of it is ready"),
    ),
    "an installation that is scaled to 0": (
        {"leases": [], "deployment": DeploymentFacts(MANAGER, 0, 0)},
        ("error", "NoManager", "deployment/manager -n kueue-system", "it is scaled to 0"),
    ),
    "webhooks that nobody answers": (
        {"webhook_services": [WebhookServiceFacts(WEBHOOKS, ("mutating", "validating"), is_ready=False)]},
        ("error", "UnansweredWebhook", "service/webhooks -n kueue-system", "mutating and validating lead to it"),
    ),
    "a deleted namespace while no manager runs": (
        {"unavailable_apis": ["v1beta2.visibility.kueue.x-k8s.io"], "deleted_namespaces": ["b", "a"]},
        (
            "error",
            "HangingNamespaces",
            "apiservice/v1beta2.visibility.kueue.x-k8s.io",
            "namespace a and 1 more does not",
        ),
    ),
    "a deleted Secret of the certificate": (
        {"missing_secret": CERTIFICATE},
        ("error", "NoCertificateSecret", "secret/certificate -n kueue-system", "cannot renew the certificate"),
    ),
    "what a manager that has ended has published": (
        {"left_configurations": [LeftConfiguration("team", "team/lease")]},
        ("warning", "LeftConfiguration", "configmap/sluice-published-config -n team", "not hold Lease team/lease any"),
    ),
    "what a manager without a Lease has published": (
        {"left_configurations": [LeftConfiguration("team", "")]},
        ("warning", "LeftConfiguration", "configmap/sluice-published-config -n team", "has no Lease"),
    ),
    "a pod whose finalizer nobody removes": (
        {"pods": [deleted(Pod, namespace="team")]},
        ("warning", "StuckFinalizer", "pod/x -n team", "example.com/keeps"),
    ),
    "a deleted ClusterQueue whose quota is in use": (
        {
            "cluster_queues": [deleted(ClusterQueue, 0, name="cq", finalizers=(FINALIZER,))],
            "workloads": [workload(true("QuotaReserved"), admission=Admission(cluster_queue="cq"))] * 2,
        },
        ("warning", "DeletionInUse", "clusterqueue/cq", "ends when the quota of Workload team/w and 1 more is"),
    ),
    "a deleted ClusterQueue in which another Workload waits": (
        {
            "cluster_queues": [deleted(ClusterQueue, 0, name="cq", finalizers=(FINALIZER,))],
            "local_queues": [local_queue()],
            "workloads": [
                workload(true("QuotaReserved"), admission=Admission(cluster_queue="cq")),
                *(
                    structs.replace(each, spec=WorkloadSpec(queue_name="lq"))
                    for each in (workload(), workload(true("Finished")))
                ),
            ],
        },
        ("warning", "DeletionInUse", "clusterqueue/cq", "meanwhile, so that Workload team/w cannot start."),
    ),
    "a deleted flavor that a ClusterQueue names": (
        {"flavors": [deleted(ResourceFlavor, 0, name="default", finalizers=(FINALIZER,))]},
        ("warning", "DeletionInUse", "resourceflavor/default", "which ends when ClusterQueue cq no longer names it."),
    ),
    "a deleted flavor in which Workloads run": (
        {
            "flavors": [deleted(ResourceFlavor, 0, name="default", finalizers=(FINALIZER,))],
            "workloads": [workload(true("QuotaReserved"), admission=IN_DEFAULT)] * 2,
        },
        (
            "warning",
            "DeletionInUse",
            "resourceflavor/default",
            "; quota of it is used by Workload team/w and 1 more, and counts",
        ),
    ),
    "a Workload that holds quota for a Job that is gone": (
        {"workloads": [HOLDING]},
        ("error", "OrphanedWorkload", "workload/w -n team", "holds quota"),
    ),
    "a pending Workload whose Job is gone": (
        {"workloads": [workload(job="gone")]},
        ("warning", "OrphanedWorkload", "workload/w -n team", "Its Job does not exist."),
    ),
}


@pytest.mark.parametrize(("change", "found"), FOUND.values(), ids=list(FOUND))
def test_a_rule_names_place_and_cause(change: dict[str, object], found: tuple[str, str, str, str]) -> None:
    (problem,) = examine(replace(HEALTHY, **change))  # type: ignore[arg-type]
    severity, code, place, words = found
    assert (problem.severity, problem.code, problem.place) == (severity, code, place)
    assert words in problem.sentence
    assert problem.command


def test_a_manager_without_pods_is_explained_by_its_replica_set() -> None:
    """Pods that a quota or Pod Security refuses do not exist, so that describing pods says nothing."""
    (problem,) = examine(replace(HEALTHY, leases=[], deployment=DeploymentFacts(MANAGER, 2, 0)))
    assert problem.command == "kubectl describe replicasets,pods -n kueue-system"


def test_commands_about_the_managers_name_their_namespace() -> None:
    hangs = {"unavailable_apis": ["x"], "deleted_namespaces": ["a"]}
    for change in ({"workloads": [RETRIED]}, hangs):
        (problem,) = examine(replace(HEALTHY, home="queue", **change))  # type: ignore[arg-type]
        assert "-n queue" in problem.command
        assert "kueue-system" not in problem.command


SILENT: dict[str, dict[str, object]] = {
    "a manager outside of its Deployment that leads": {"deployment": DeploymentFacts(MANAGER, 0, 0)},
    "a manager that needs no Lease": {"leases": []},
    "a resource that no node reports": {"nodes": [NodeFacts("n", {}, {"memory": "1Gi"})]},
    "a ClusterQueue in deletion that still has Workloads": {
        "cluster_queues": [deleted(ClusterQueue, name="cq")],
        "workloads": [workload(true("QuotaReserved"), admission=Admission(cluster_queue="cq"))],
    },
    "a deleted flavor of a ClusterQueue that is deleted, too": {
        "flavors": [deleted(ResourceFlavor, 0, name="default", finalizers=(FINALIZER,))],
        "cluster_queues": [
            ClusterQueue(metadata=deleted(name="cq", minutes=0).metadata, spec=cluster_queue().spec),
        ],
    },
    "a deleted flavor that is not in use": {
        "flavors": [flavor(), deleted(ResourceFlavor, 0, name="other", finalizers=(FINALIZER,))]
    },
    "a deletion that has just begun": {"pods": [deleted(Pod, minutes=4)]},
    "a finished Workload whose Job is gone": {"workloads": [workload(true("Finished"), job="gone")]},
    "a Workload that a user made without a Job": {"workloads": [Workload(metadata=ObjectMeta(name="own"))]},
    "a clock within the uncertainty": {"clocks": [ClockFacts("this machine", 8 * SECOND, 4 * SECOND)]},
    "a deleted namespace while a manager runs": {"deleted_namespaces": ["a"]},
    "an unavailable visibility API, and no deleted namespace": {"unavailable_apis": ["x"]},
    "a limit of retries": {"config": config(timeout=timedelta(minutes=5), requeuing_strategy=LIMITED)},
    "an end of all retries by time": {
        "config": config(requeuing_strategy=RequeuingStrategy(give_up_after=DAY), timeout=timedelta(minutes=5))
    },
    "pods that have become ready only at another try": {
        "config": config(timeout=timedelta(seconds=100), requeuing_strategy=LIMITED),
        "workloads": [started_after(90 * SECOND)],
        "jobs": [Job(metadata=ObjectMeta(name="job", namespace="team", uid="job-uid"), status=JobStatus(failed=1))],
    },
    "pods that have waited for a node, and were ready soon after": {
        "config": SHORT,
        "workloads": [started_after(90 * SECOND)],
        "pods": [placed_at(NOW + 80 * SECOND)],
    },
    "an image pull that is much faster than the timeout": {"image_pulls": PULLS},
    "pods that have become ready once the image was there": {
        "config": SHORT,
        "workloads": [timed_out("ErrImagePull: not found", true("PodsReady"))],
    },
    "attempts that ended at a shorter timeout than today's": {
        "config": config(timeout=timedelta(minutes=5), requeuing_strategy=LIMITED),
        "workloads": [timed_out("ContainerCreating: container main has not started")],
    },
    "attempts that ended for another cause": {"config": SHORT, "workloads": [timed_out("exit 3: boom")]},
    "no waitForPodsReady": {"config": KueueConfig(wait_for_pods_ready=None), "workloads": [RETRIED]},
    "a cycle of cohorts": {
        "cluster_queues": [cluster_queue(cohort="a", borrowing="9")],
        "cohorts": [
            Cohort(metadata=ObjectMeta(name=name), spec=CohortSpec(parent_name=parent))
            for name, parent in (("a", "b"), ("b", "a"))
        ],
    },
}


@pytest.mark.parametrize("change", SILENT.values(), ids=list(SILENT))
def test_what_is_in_order_is_no_finding(change: dict[str, object]) -> None:
    assert examine(replace(HEALTHY, **change)) == []  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 64), st.integers(0, 64)), max_size=5),
    st.integers(0, 20),
    st.timedeltas(timedelta(0), timedelta(minutes=20)),
)
def test_a_healthy_cluster_has_no_findings(
    queues: list[tuple[int, int, int]], node_count: int, start: timedelta
) -> None:
    """Queues whose flavors exist and have nodes, with quotas that the nodes have, at any size."""
    names = {number for number, _, _ in queues}
    made = [
        cluster_queue(f"cq-{i}", f"f-{number}", str(min(nominal, 64)), str(min(limit, _others(queues, i))), "all")
        for i, (number, nominal, limit) in enumerate(queues)
    ]
    nodes = [NodeFacts(f"n-{n}-{i}", {"f": f"{n}"}, {"cpu": "64"}) for n in names for i in range(1 + node_count)]
    snapshot = replace(
        HEALTHY,
        cluster_queues=made,
        local_queues=[local_queue(queue.metadata.name) for queue in made],
        flavors=[flavor(f"f-{number}", f=str(number)) for number in names],
        nodes=nodes,
        workloads=[started_after(start)],
    )
    assert examine(snapshot) == []


def _others(queues: list[tuple[int, int, int]], index: int) -> int:
    """The quota of all other queues in the flavor of this one."""
    return sum(nominal for i, (number, nominal, _) in enumerate(queues) if i != index and number == queues[index][0])


def test_rules_are_silent_about_what_may_not_be_read() -> None:
    assert examine(ClusterSnapshot(now=NOW)) == []


def test_errors_come_first() -> None:
    broken = replace(HEALTHY, flavors=[], nodes=[], certificates=[CertificateFacts("x", NOW + DAY, "renew")])
    assert [problem.severity for problem in examine(broken)] == ["error", "warning"]


def test_a_passing_state_counts_only_if_a_second_snapshot_has_it() -> None:
    orphan = examine(replace(HEALTHY, workloads=[HOLDING]))
    lasting = Problem("error", "MissingFlavor", "clusterqueue/cq", "s", "c")
    assert needs_confirmation(orphan)
    assert not needs_confirmation([lasting])
    assert confirmed(orphan, []) == []
    assert confirmed([], [*orphan, lasting]) == [lasting]
    assert confirmed(orphan, orphan) == orphan


def test_a_cycle_is_mended_at_a_cohort_of_the_cycle() -> None:
    cohorts = [cohort("a", "b"), cohort("b", "c"), cohort("c", "b")]
    [found] = examine(replace(HEALTHY, cluster_queues=[inactive("CohortCycleDetected")], cohorts=cohorts))
    assert found.command == """kubectl patch cohort b --type merge -p '{"spec":{"parentName":null}}'"""


def test_a_cycle_is_mended_at_a_cohort_whose_parent_may_be_removed() -> None:
    """A limit needs a parent; the command is the same for all queues of the cycle."""
    a, b = cohort("a", "b"), cohort("b", "a")
    limited_a, limited_b = cohort("a", "b", "9"), cohort("b", "a", "9")
    queues = [inactive("CohortCycleDetected", above) for above in ("a", "b")]
    for known, command in (((limited_a, b), "patch cohort b "), ((a, limited_b), "patch cohort a ")):
        found = examine(replace(HEALTHY, cluster_queues=queues, cohorts=known))
        assert [problem.command.startswith(f"kubectl {command}") for problem in found] == [True, True]
    found = examine(replace(HEALTHY, cluster_queues=queues, cohorts=(limited_a, limited_b)))
    assert [problem.command for problem in found] == ["kubectl edit cohort a"] * 2


@pytest.mark.parametrize(
    ("reason", "flavors", "codes"),
    [("Stopped", ["default"], []), ("FlavorNotFound", [], ["MissingFlavor"]), ("Other", ["default"], ["Inactive"])],
)
def test_an_inactive_queue_is_found_once_unless_on_purpose(reason: str, flavors: list[str], codes: list[str]) -> None:
    snapshot = replace(HEALTHY, cluster_queues=[inactive(reason)], flavors=[flavor(name) for name in flavors])
    assert [problem.code.removesuffix("ClusterQueue") for problem in examine(snapshot)] == codes


def test_a_misspelt_flavor_is_replaced_by_the_one_that_was_meant() -> None:
    (problem,) = examine(replace(HEALTHY, flavors=[flavor("defualt")]))
    assert problem.command == (
        "kubectl patch clusterqueue cq --type json -p "
        '\'[{"op":"replace","path":"/spec/resourceGroups/0/flavors/0/name","value":"defualt"}]\''
    )
    (problem,) = examine(replace(HEALTHY, flavors=[flavor("spot")]))
    assert problem.command.startswith('echo \'{"apiVersion"'), "none is similar"


def test_a_cluster_queue_that_a_manager_has_from_a_file_is_not_missed() -> None:
    works = QueueStatus(conditions=(Condition(type="Active", status="True", reason="Ready"),))
    led = LocalQueue(metadata=local_queue().metadata, spec=local_queue("of-file").spec, status=works)
    assert examine(replace(HEALTHY, local_queues=[led])) == []
