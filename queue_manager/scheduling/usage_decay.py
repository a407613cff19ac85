"""Admission fair sharing: the past usage of LocalQueues, which orders them within a ClusterQueue (KEP-4136).

Usage decays with a half-life; what runs replaces what has decayed. After `t` seconds with the same Workloads running,

    usage = usage before * 2^(-t / halfLife) + running * (1 - 2^(-t / halfLife))

It is sampled at an interval and kept in the status of the LocalQueue, from which it is restored after a restart.
Between two samples an admission adds an *entry penalty*, request * (1 - 2^(-interval / halfLife)): as much as the
Workload would have contributed in one interval. So a burst of admissions counts at once. A half-life of 0 forgets all
usage.

The LocalQueue with the lowest *weighted usage* comes first: the sum over resources of usage * resourceWeight, divided
by the LocalQueue's weight. With weight 0 it comes last. Usage is kept in billionths of a unit and written in
thousandths, so that many short samples lose no more than few long ones. Kueue: pkg/util/admissionfairsharing,
pkg/cache/queue/afs; BEHAVIOUR.md#q48-admission-fair-sharing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from job_controller import quantities
from job_controller.model import Key
from queue_manager.scheduling.quota_tree import Usage

PER_UNIT = 10**9
THOUSANDTH = PER_UNIT // 1000  # the least amount that is kept or written
# By resource, in billionths of the API's unit: nanocores, billionths of a byte.
Consumption = Mapping[str, int]
NOTHING: Consumption = {}


class WeightedUsage(NamedTuple):
    """Orders LocalQueues; the smallest is first."""

    last: bool  # the weight is 0
    amount: Fraction


@dataclass(frozen=True, slots=True)
class UsageDecay:
    """admissionFairSharing of the configuration. Times in seconds."""

    half_life: float
    interval: float = 300.0
    weights: Mapping[str, Fraction] = field(default_factory=dict)  # by resource; absent: 1

    def after(self, before: Consumption, running: Consumption, seconds: float) -> Consumption:
        """The usage `seconds` after it was `before`, while `running` was admitted. Less than a thousandth is 0."""
        if not self.half_life:
            return NOTHING
        kept = 0.5 ** (max(0.0, seconds) / self.half_life)
        resources = before.keys() | running.keys()
        found = {r: int(before.get(r, 0) * kept + running.get(r, 0) * (1.0 - kept)) for r in sorted(resources)}
        return {resource: amount for resource, amount in found.items() if amount >= THOUSANDTH}

    def penalty(self, requests: Consumption) -> Consumption:
        """The usage that an admission adds immediately."""
        return self.after(NOTHING, requests, self.interval)

    def weighted(self, consumed: Consumption, weight: Fraction) -> WeightedUsage:
        """What a LocalQueue of this weight has consumed, divided by the weight: comparable between LocalQueues."""
        total = sum((self.weights.get(r, 1) * Fraction(amount) for r, amount in consumed.items()), Fraction(0))
        return WeightedUsage(True, total) if weight <= 0 else WeightedUsage(False, total / weight)


@dataclass(frozen=True, slots=True)
class Sample:
    """The usage of a LocalQueue at a time, in whole seconds as the API keeps it."""

    consumed: Consumption
    at: datetime


class UsageLedger:
    """The past usage of LocalQueues. Without `decay` admission fair sharing is off, and nothing is kept."""

    def __init__(self, decay: UsageDecay | None = None) -> None:
        self.decay = decay
        self._samples: dict[Key, Sample] = {}

    def reconfigure(self, decay: UsageDecay | None) -> None:
        """Use these rules from now on."""
        self.decay = decay
        if decay is None:
            self._samples.clear()

    def get(self, queue: Key) -> Sample | None:
        """The last sample, with the penalties of admissions since then; None before the first."""
        return self._samples.get(queue)

    def restore(self, queue: Key, consumed: Consumption, at: datetime) -> None:
        """Set the sample of a LocalQueue to that of its status, unless a newer one is known."""
        known = self._samples.get(queue)
        if self.decay is not None and (known is None or known.at < at):
            self._samples[queue] = Sample(consumed, at)

    def forget(self, queue: Key) -> None:
        """Remove the sample of a deleted LocalQueue."""
        self._samples.pop(queue, None)

    def is_due(self, queue: Key, now: datetime) -> bool:
        """Whether the interval has passed since the last sample."""
        known = self._samples.get(queue)
        return self.decay is not None and (known is None or (now - known.at).total_seconds() >= self.decay.interval)

    def sample(self, queue: Key, running: Consumption, now: datetime) -> None:
        """Decay the usage of a LocalQueue up to `now`, and add what runs. The first sample is what runs.

        A LocalQueue without usage keeps its sample, so that its status does not change while nothing happens.
        """
        if self.decay is None:
            return
        known, now = self._samples.get(queue), now.replace(microsecond=0)
        if known is None:
            self._samples[queue] = Sample(self.decay.after(running, running, 0.0), now)
            return
        consumed = self.decay.after(known.consumed, running, (now - known.at).total_seconds())
        if consumed or known.consumed:
            self._samples[queue] = Sample(consumed, now)

    def admit(self, queue: Key, requests: Consumption, now: datetime, *, undo: bool = False) -> None:
        """Add the entry penalty of an admission; with `undo` subtract it: the admission could not be written."""
        if self.decay is None:
            return
        known = self._samples.get(queue)
        if known is None or not known.consumed:  # so far nothing has run that the next sample would add
            known = Sample(NOTHING, now.replace(microsecond=0))
        penalty = self.decay.penalty(requests)
        sign = -1 if undo else 1
        total = {r: known.consumed.get(r, 0) + sign * penalty.get(r, 0) for r in known.consumed.keys() | penalty.keys()}
        self._samples[queue] = Sample({r: total[r] for r in sorted(total) if total[r] >= THOUSANDTH}, known.at)

    def weighted(self, queue: Key, weight: Fraction) -> WeightedUsage:
        """The sort key of the LocalQueue among those of its ClusterQueue."""
        known = self._samples.get(queue)
        decay = self.decay or UsageDecay(0.0)
        return decay.weighted(known.consumed if known is not None else NOTHING, weight)


def consumption(usages: Iterable[Usage]) -> Consumption:
    """The sum of some usages over all flavors."""
    total: dict[str, int] = {}
    for usage in usages:
        for fr, amount in usage.items():
            billionths = amount * (THOUSANDTH if fr.resource == "cpu" else PER_UNIT)
            total[fr.resource] = total.get(fr.resource, 0) + billionths
    return {resource: amount for resource, amount in total.items() if amount}


def to_quantities(consumed: Consumption) -> dict[str, str | int]:
    """consumedResources of the status, rounded down to thousandths: "1500m", "10Gi"."""
    return {resource: _text(resource, amount) for resource, amount in consumed.items()}


def _text(resource: str, amount: int) -> str:
    if resource != "cpu" and amount % PER_UNIT == 0:
        return quantities.to_text(amount // PER_UNIT, resource)
    return quantities.canonical(quantities.Quantity(amount // THOUSANDTH * THOUSANDTH, "decimal"))


def from_quantities(written: Mapping[str, str | int]) -> Consumption:
    """The reverse of `to_quantities`."""
    return {resource: quantities.quantity(value).nano for resource, value in written.items()}
