"""Rules of `sluice doctor` on certificates, clocks, leadership of managers, webhooks that answer, and the history.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from queue_manager.api.component_names import PUBLISHED_CONFIG
from queue_manager.visibility.diagnosis.problem import Problem, error, warning
from queue_manager.visibility.diagnosis.snapshot import ClusterSnapshot
from queue_manager.visibility.manager_presence import is_renewed
from queue_manager.visibility.obstacles import INSTALL

EXPIRED_CERTIFICATE = "ExpiredCertificate"
EXPIRING_CERTIFICATE = "ExpiringCertificate"
CLOCK_SKEW = "ClockSkew"
NO_MANAGER = "NoManager"
UNANSWERED_WEBHOOK = "UnansweredWebhook"
DEAD_CONVERSION = "DeadConversion"
WITHOUT_CONVERSION = '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
NO_CERTIFICATE_SECRET = "NoCertificateSecret"
HISTORY_STALLED = "HistoryStalled"
LEFT_CONFIGURATION = "LeftConfiguration"
WITHOUT_DATA = '{"data":null}'  # an installed manager may write the ConfigMap, not create it

HANGING_NAMESPACES = "HangingNamespaces"
TRANSIENT = frozenset({HANGING_NAMESPACES})  # a namespace takes seconds to go, a manager to start

SLUICE_LABEL = "app.kubernetes.io/name=sluice"  # without it, `sluice uninstall` leaves an object
EXPIRES_SOON = timedelta(days=14)  # Sluice renews its own 30 days before
SKEW = timedelta(seconds=5)  # deadlines and backoffs are wrong by this much
LARGE_SKEW = timedelta(seconds=60)  # tokens and certificates may be refused


def expiring_certificates(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Certificates that have ended, or end soon."""
    for each in snapshot.certificates:
        left = each.not_after - snapshot.now
        until = f"{each.not_after:%Y-%m-%dT%H:%M:%SZ}"
        if left <= timedelta(0):
            yield error(EXPIRED_CERTIFICATE, each.place, f"The certificate expired at {until}.", each.command)
        elif left < EXPIRES_SOON:
            what = f"The certificate expires at {until}, in {_rounded_down(left)}."
            yield warning(EXPIRING_CERTIFICATE, each.place, what, each.command)


def _rounded_down(left: timedelta) -> str:
    """Return the span in days, in hours below one day, or `less than an hour`."""
    hours = left // timedelta(hours=1)
    count, unit = (left.days, "day") if left.days else (hours, "hour")
    return f"{count} {unit}{'' if count == 1 else 's'}" if count else "less than an hour"


def skewed_clocks(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Clocks that differ from the API server's by more than the uncertainty of the measurement."""
    for clock in snapshot.clocks:
        sure = abs(clock.ahead) - clock.uncertainty
        if sure <= SKEW:
            continue
        seconds = abs(clock.ahead).total_seconds()
        direction = "ahead of" if clock.ahead > timedelta(0) else "behind"
        make = error if sure > LARGE_SKEW else warning
        what = (
            f"Its clock is {seconds:.0f} s {direction} that of the API server: deadlines and waiting times are wrong."
        )
        yield make(CLOCK_SKEW, clock.owner, what, "timedatectl set-ntp true (on that machine)")


def leases_without_holder(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Leases that no manager renews: nothing is admitted.

    Without the configuration it is not known whether a manager runs with another Lease, or with none.
    """
    for lease in snapshot.leases:
        namespace, _, name = lease.name.partition("/")
        since = snapshot.now - lease.renewed if lease.renewed is not None else None
        if is_renewed(lease, snapshot.now):
            continue
        ago = f"; {lease.holder} renewed it {since.total_seconds():.0f} s ago" if lease.holder and since else ""
        command = f"kubectl get pods -n {namespace}; kubectl rollout restart deployment -n {namespace}"
        if snapshot.config is not None:
            what = f"No manager leads, so no Job is admitted{ago}."
            yield error(NO_MANAGER, f"lease/{name} -n {namespace}", what, command)
            continue
        what = (
            f"Perhaps no manager runs: none holds this Lease{ago}. The configuration of the managers could not be "
            "read, so one may run with another Lease, or without leader election."
        )
        command = INSTALL if snapshot.is_absent else command
        yield warning(NO_MANAGER, f"lease/{name} -n {namespace}", what, command)


def deployments_that_never_led(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """An installed manager that has no ready pod, and never took its Lease."""
    deployment = snapshot.deployment
    if deployment is None or deployment.ready or snapshot.leases:
        return
    namespace, name = deployment.key
    what = "no pod of it is ready" if deployment.replicas else "it is scaled to 0"
    yield error(
        NO_MANAGER,
        f"deployment/{name} -n {namespace}",
        f"The manager is installed, but {what}, and there is no Lease: no Job is admitted, unless a manager outside of "
        "the Deployment runs without leader election.",
        f"kubectl describe replicasets,pods -n {namespace}"  # a ReplicaSet says why it may create no pod
        if deployment.replicas
        else f"kubectl scale deployment {name} -n {namespace} --replicas=2",
    )


def unanswered_webhooks(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Webhooks without a pod that answers: the API server refuses each write that it has to ask them about."""
    for service in snapshot.webhook_services:
        if service.is_ready:
            continue
        namespace, name = service.key
        yield error(
            UNANSWERED_WEBHOOK,
            f"service/{name} -n {namespace}",
            f"It has no ready endpoint, and {' and '.join(service.configurations)} lead to it with failurePolicy Fail: "
            "new Jobs with a queue, and other writes in their scope, are refused.",
            f"kubectl get pods -n {namespace}; kubectl rollout restart deployment -n {namespace}",
        )


def dead_conversions(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Conversion webhooks that fail, of kinds that are the same in all versions."""
    for each in snapshot.dead_conversions:
        namespace, name = each.service
        yield error(
            DEAD_CONVERSION,
            f"crd/{each.crd}",
            f"Its objects cannot be read: {each.failure}. It calls service/{name} -n {namespace}. Sluice needs no "
            "webhook for this kind, which is the same in v1beta1 and v1beta2.",
            f"kubectl patch crd {each.crd} --type merge -p '{WITHOUT_CONVERSION}'",
        )


def hanging_namespaces(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Deleted namespaces, while the visibility API does not answer: a cluster deletes none before each API has said
    which kinds it has."""
    if not (snapshot.unavailable_apis and snapshot.deleted_namespaces):
        return
    first, *others = sorted(snapshot.deleted_namespaces)
    more = f" and {len(others)} more" if others else ""
    yield error(
        HANGING_NAMESPACES,
        f"apiservice/{snapshot.unavailable_apis[0]}",
        f"No manager answers the visibility API, so the deletion of namespace {first}{more} does not end, "
        "nor would that of another one.",
        f"kubectl get pods -n {snapshot.home}; kubectl rollout restart deployment -n {snapshot.home}",
    )


def missing_certificate_secrets(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """A Secret of the webhooks' certificate that was deleted. Managers may write it, not create it."""
    if snapshot.missing_secret is None:
        return
    namespace, name = snapshot.missing_secret
    yield error(
        NO_CERTIFICATE_SECRET,
        f"secret/{name} -n {namespace}",
        "It does not exist: managers that run cannot renew the certificate of the webhooks, and none can start.",
        f"kubectl create secret generic {name} -n {namespace}; "
        f"kubectl label secret {name} -n {namespace} {SLUICE_LABEL}",
    )


def left_configurations(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """What a manager of listed namespaces has published and perhaps left: it has precedence there."""
    for each in snapshot.left_configurations:
        what = (
            f"The manager that has published it does not hold Lease {each.lease} any more"
            if each.lease
            else "The manager that has published it has no Lease, which would show whether it still runs"
        )
        yield warning(
            LEFT_CONFIGURATION,
            f"configmap/{PUBLISHED_CONFIG} -n {each.namespace}",
            f"{what}. If it has ended for good, this has to go: commands about Jobs of this namespace may show its "
            "settings in place of those of the manager of all namespaces, which runs.",
            f"kubectl patch configmap {PUBLISHED_CONFIG} -n {each.namespace} --type merge -p '{WITHOUT_DATA}'",
        )


def stalled_history(snapshot: ClusterSnapshot) -> Iterator[Problem]:
    """Records of the history that wait without a write: the process loses them when it ends."""
    history = snapshot.history
    if history is None or not history.stalled_seconds:
        return
    count, seconds = history.waiting_records, history.stalled_seconds
    yield error(
        HISTORY_STALLED,
        "history (history.url)",
        f"No record has been written for {seconds:.0f} s, and {count} wait: the database hangs or cannot be reached, "
        "or the thread that writes has ended (see the log). Jobs run on. What waits at the end of `sluice up` is lost, "
        "except for what the next start still reads from Jobs and Workloads.",
        "sluice down; sluice up --detach",
    )
