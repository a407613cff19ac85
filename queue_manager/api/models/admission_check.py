"""AdmissionCheck: a yes or no from elsewhere before a workload with quota may start (spec: kueue.md 3.7)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from queue_manager.api.models.base import DNS_LABEL, IMMUTABLE, ApiModel, CustomKind, Name, checked
from queue_manager.api.models.common import Conditions


class AdmissionCheckParameters(ApiModel):
    """An object that configures the check."""

    api_group: Name
    """The API group of the object."""

    kind: Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$")]
    """The kind of the object."""

    name: Annotated[str, Field(max_length=63, pattern=DNS_LABEL)]
    """The name of the object."""


class AdmissionCheckSpec(ApiModel):
    """Who answers, and with which parameters."""

    controller_name: Annotated[str, Field(min_length=1, max_length=253), checked(IMMUTABLE)]
    """The controller that answers this check. Immutable."""

    parameters: AdmissionCheckParameters | None = None
    """An object with further configuration."""


class AdmissionCheckStatus(ApiModel):
    """The observed state of an AdmissionCheck."""

    conditions: Conditions | None = None
    """Active tells whether the controller is ready to answer."""


class AdmissionCheck(CustomKind):
    """A check that a ClusterQueue may demand between quota reservation and admission."""

    plural: ClassVar[str] = "admissionchecks"
    short_names: ClassVar[tuple[str, ...]] = ("ac",)

    spec: AdmissionCheckSpec | None = None
    """Who answers, and with which parameters."""

    status: AdmissionCheckStatus | None = None
    """The observed state of the check."""
