"""WorkloadPriorityClass: a named priority for the queue, independent of pod priority."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from queue_manager.api.models.base import CustomKind, Int32, PrinterColumn


class WorkloadPriorityClass(CustomKind):
    """A named priority. Jobs select it with the label kueue.x-k8s.io/priority-class."""

    plural: ClassVar[str] = "workloadpriorityclasses"
    short_names: ClassVar[tuple[str, ...]] = ("wpc",)
    columns: ClassVar[tuple[PrinterColumn, ...]] = (
        PrinterColumn("Value", ".value", "integer", "Value of workloadPriorityClass's Priority"),
    )

    value: Int32
    """
    The priority of workloads of this class; higher is admitted first. A change is applied to the workloads that
    refer to the class.
    """

    description: Annotated[str, Field(max_length=2048)] | None = None
    """When to use the class, for people."""
