"""Whether a manager runs, by its Lease and its Deployment. Pure.

A Lease that a manager holds is renewed every few seconds. One that is not was left by a manager that has ended, or the
managers have another one; so it is evidence only while no other Lease that may be theirs is renewed.
BEHAVIOUR.md#q164-explanations-without-a-manager.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from job_controller.model import Key

MISSED_LEASES = 4  # lease durations without renewal: another manager would have taken over


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """The Lease of the managers, `namespace/name`. An empty holder means that the Lease was released."""

    name: str
    holder: str
    renewed: datetime | None
    seconds: int


@dataclass(frozen=True, slots=True)
class DeploymentFacts:
    """The Deployment of the managers: how many pods it is to have, and how many are ready."""

    key: Key
    replicas: int
    ready: int


@dataclass(frozen=True, slots=True)
class Presence:
    """`absent`: what shows that no manager runs; "": nothing does.

    `is_certain`: no manager may run beside that. `all_read`: whether everything that may show a manager could be read.
    `command`: what shows more.
    """

    absent: str = ""
    is_certain: bool = True
    command: str = ""
    all_read: bool = True


def is_renewed(lease: LeaseFacts, now: datetime) -> bool:
    """Whether a manager holds the Lease. `now`: by the clock of the API server."""
    limit = MISSED_LEASES * timedelta(seconds=lease.seconds)
    return bool(lease.holder) and lease.renewed is not None and now - lease.renewed <= limit


def presence(
    leases: Iterable[LeaseFacts], deployment: DeploymentFacts | None, now: datetime, *, all_read: bool
) -> Presence:
    """Return whether a manager runs. `leases`: those that may be its; `all_read`: whether others were forbidden."""
    known = list(leases)
    if any(is_renewed(lease, now) for lease in known):
        return Presence()
    if known:
        newest = max(known, key=lambda lease: lease.renewed.timestamp() if lease.renewed is not None else 0.0)
        namespace, _, name = newest.name.partition("/")
        return Presence(_ago(newest, now), all_read, f"kubectl get lease {name} -n {namespace}", all_read)
    if deployment is not None and not deployment.ready:
        where = f"{deployment.key.name} -n {deployment.key.namespace}"
        text = f"no pod of deployment {where} is ready, and none has held a Lease"
        return Presence(text, all_read, f"kubectl describe deployment {where}", all_read)
    return Presence(all_read=all_read)


def without_installation(place: str) -> Presence:
    """Return what the absence of Deployment, configuration and Lease in a namespace shows.

    A manager without leader election that was started by hand needs none of them.
    """
    text = f"Sluice is not installed in namespace {place}, and none has held a Lease"
    return Presence(text, is_certain=False, command="sluice doctor")


def _ago(lease: LeaseFacts, now: datetime) -> str:
    if not lease.holder or lease.renewed is None:
        return f"no manager holds Lease {lease.name}"
    seconds = (now - lease.renewed).total_seconds()
    return f"{lease.holder} renewed Lease {lease.name} {seconds:.0f} s ago as the last manager"


def notice(seen: Presence) -> str:
    """Return the line below a list of Jobs that wait; "" if a manager may run.

    Nothing is said of a cluster without an installation: the list would say it each time beside a manager that was
    started by hand.
    """
    is_bare = seen.all_read and not seen.is_certain
    if not seen.absent or is_bare:
        return ""
    return f"{'no manager runs' if seen.is_certain else 'perhaps no manager runs'}: {seen.absent}"
