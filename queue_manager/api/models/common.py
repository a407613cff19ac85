"""Shapes that several kinds share: conditions, selectors, taints, tolerations, fair sharing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from queue_manager.api.models.base import (
    ATOMIC,
    ATOMIC_MAP,
    ApiModel,
    CelRule,
    Extra,
    Int64,
    Quantities,
    Quantity,
    Time,
    checked,
    list_map,
)

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]

EFFECTS = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"
EFFECT_MESSAGE = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"

TAINT_RULES = checked(CelRule(f"self.all(x, has(x.effect) && x.effect in {EFFECTS})", EFFECT_MESSAGE))

TOLERATION_RULES = checked(
    CelRule(
        "self.all(x, has(x.key) || has(x.operator) && x.operator == 'Exists')",
        "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
    ),
    CelRule(
        "self.all(x, !has(x.tolerationSeconds) || has(x.effect) && x.effect == 'NoExecute')",
        "effect must be 'NoExecute' when 'tolerationSeconds' is set",
    ),
    CelRule(
        "self.all(x, !has(x.operator) || x.operator in ['Equal', 'Exists'])",
        "supported toleration values: 'Equal'(default), 'Exists'",
    ),
    CelRule(
        "self.all(x, !(has(x.operator) && x.operator == 'Exists' && has(x.value)))",
        "a value must be empty when 'operator' is 'Exists'",
    ),
    CelRule(f"self.all(x, !has(x.effect) || x.effect in {EFFECTS})", EFFECT_MESSAGE),
)


class Condition(ApiModel):
    """One aspect of the current state of an object."""

    last_transition_time: Time
    """When the status last changed from one value to another."""

    message: Annotated[str, Field(max_length=32768)]
    """Details for people. May be empty."""

    observed_generation: Annotated[int, Field(ge=0), Extra(format="int64")] | None = None
    """The metadata.generation that the condition was computed from."""

    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why the condition last changed, as one CamelCase word."""

    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""

    type: Annotated[
        str,
        Field(
            max_length=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    """What the condition is about, in CamelCase."""


Conditions = Annotated[list[Condition], Field(max_length=16), list_map("type")]


class SelectorRequirement(ApiModel):
    """A key, the values it is compared with, and how."""

    key: str
    """The label key."""

    operator: str
    """In, NotIn, Exists or DoesNotExist."""

    values: Annotated[list[str], ATOMIC] | None = None
    """Not empty for In and NotIn, empty for Exists and DoesNotExist."""


class LabelSelector(ApiModel):
    """Selects objects whose labels meet all requirements. An empty selector selects everything."""

    match_expressions: Annotated[list[SelectorRequirement], ATOMIC] | None = None
    """Requirements on label keys; all must hold."""

    match_labels: dict[str, str] | None = None
    """Labels that must be present with exactly these values."""


class Taint(ApiModel):
    """Keeps pods that do not tolerate it away from a node."""

    effect: str | None = None
    """NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    """The taint key."""

    time_added: Time | None = None
    """When a NoExecute taint was added."""

    value: str | None = None
    """The taint value."""


class Toleration(ApiModel):
    """Lets a pod run on nodes with matching taints."""

    effect: str | None = None
    """The effect to tolerate; empty tolerates all effects."""

    key: str | None = None
    """The taint key to tolerate; empty, with operator Exists, tolerates all taints."""

    operator: str | None = None
    """Equal (the default) or Exists."""

    toleration_seconds: Int64 | None = None
    """How long a NoExecute taint is tolerated, in seconds; unset means forever."""

    value: str | None = None
    """The taint value to tolerate; empty with operator Exists."""


Labels = Annotated[dict[str, str], Field(max_length=8), ATOMIC_MAP]
Taints = Annotated[list[Taint], Field(max_length=8), ATOMIC, TAINT_RULES]
Tolerations = Annotated[list[Toleration], Field(max_length=8), ATOMIC, TOLERATION_RULES]


class FairSharing(ApiModel):
    """Weight in the competition for unused quota."""

    weight: Quantity = 1
    """
    Advantage over others when unused quota is shared. Usage above nominal quota is divided by the weight, and
    the lowest share is served first. With 0 the queue is served after all others; otherwise the weight is above 10^-9.
    """


class FairSharingStatus(ApiModel):
    """What fair sharing computes for a queue or cohort."""

    weighted_share: Int64
    """
    The largest ratio of usage above nominal quota to the lendable quota of the cohort, over all resources,
    divided by the weight. 0 while usage is within nominal quota.
    """


class AdmissionFairSharingStatus(ApiModel):
    """The past usage of a LocalQueue, for admission fair sharing."""

    consumed_resources: Quantities
    """Usage aggregated over time, halved with every half-life."""

    last_update: Time
    """When the usage was last aggregated."""


class LocalQueueFairSharingStatus(FairSharingStatus):
    """What fair sharing computes for a LocalQueue."""

    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None
    """Decayed usage, when admission fair sharing is configured."""


class AdmissionScope(ApiModel):
    """How admission fair sharing applies."""

    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
    """
    UsageBasedAdmissionFairSharing orders the LocalQueues of this queue by their past usage;
    NoAdmissionFairSharing does not.
    """
