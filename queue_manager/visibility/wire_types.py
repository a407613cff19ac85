"""Wire types of pods for display. They have more fields than the types that controllers decode."""

from __future__ import annotations

from datetime import datetime

from job_controller import model
from job_controller.model import Record


class Running(Record):
    """core/v1 ContainerStateRunning."""

    started_at: datetime | None = None


class Terminated(model.TerminatedState):
    """core/v1 ContainerStateTerminated, with signal and start time."""

    signal: int = 0
    started_at: datetime | None = None


class ContainerState(model.ContainerState):
    """core/v1 ContainerState, with the running state."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(model.ContainerStatus):
    """core/v1 ContainerStatus, with states as defined here."""

    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(model.PodStatus):
    """core/v1 PodStatus, with the start time and container statuses as defined here."""

    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: datetime | None = None


class Pod(model.Pod):
    """core/v1 Pod, with the status as defined here."""

    status: PodStatus = PodStatus()
