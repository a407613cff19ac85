"""AdmissionCheck: a confirmation by another controller before a workload with quota may start (KEP-993)."""

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
    """The controller of the check, and its parameters."""

    controller_name: Annotated[str, Field(min_length=1, max_length=253), checked(IMMUTABLE)]
    """The controller that sets the state of this check. Immutable."""

    parameters: AdmissionCheckParameters | None = None
    """An object with further configuration."""


class AdmissionCheckStatus(ApiModel):
    """The observed state of an AdmissionCheck."""

    conditions: Conditions | None = None
    """Active: whether the controller of the check is ready."""


class AdmissionCheck(CustomKind):
    """A check that a ClusterQueue can require between quota reservation and admission."""

    plural: ClassVar[str] = "admissionchecks"
    short_names: ClassVar[tuple[str, ...]] = ("ac",)

    spec: AdmissionCheckSpec | None = None
    """The controller of the check, and its parameters."""

    status: AdmissionCheckStatus | None = None
    """The observed state of the check."""
