"""Exceptions of the client.

The text of each has one line that says what happened; further lines, where there are any, say what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from job_controller.model import Key
from queue_manager.lifecycle.pod_causes import exit_code_in
from queue_manager.visibility.job_causes import of_indexes
from queue_manager.visibility.shown_causes import cause_of_end

if TYPE_CHECKING:
    from kubernetes.client import V1Job

    from queue_manager.client.job_update import JobUpdate
    from queue_manager.visibility.pod_failures import Failure


class Error(Exception):
    """Base class of the errors of this package."""


class RequestFailed(Error):
    """The API server answered a request with an error; nothing was created or changed by it.

    `status` is the HTTP status, for example 422 for an invalid Job or 409 for a name that is taken; `reason` and
    `message` are those of the server: `Invalid`. `fields`: the paths of the fields that it refuses, in its order:
    `("spec.parallelism",)`; () if it names none. The official client's ApiException is the `__cause__`.
    """

    def __init__(self, text: str, status: int, reason: str, message: str, fields: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.message = message
        self.fields = fields


class ClusterUnreachable(Error, ConnectionError):
    """The API server does not answer, or the connection broke. `server` is its URL.

    Whether a request that found no answer was carried out is unknown: `submit` may have created the Job.
    """

    def __init__(self, text: str, server: str) -> None:
        super().__init__(text)
        self.server = server


class NeverStarts(Error):
    """The Job was created and still exists, but cannot start until it or its queue is changed.

    `reason` says why, `remedy` what to do about it ("" if unknown), `job` is the Job: `client.cancel(error.job)`
    deletes it.
    """

    def __init__(self, job: V1Job, key: Key, reason: str, remedy: str = "") -> None:
        removal = f"to delete it: sluice cancel {key}, or client.cancel(error.job)"
        lines = [f"Job {key} was created and stays: {reason}", *([remedy] if remedy else []), removal]
        super().__init__("\n  ".join(lines))
        self.job = job
        self.reason = reason
        self.remedy = remedy


class JobDeactivated(Error):
    """The Job was deactivated, by a user or by a rule, and stays out of its queue until it is reactivated.

    It may have run before. `reason` says why; `cause` why its pods were not ready in the last attempt: `exit 3: boom`,
    "" if it ended for another reason. `remedy`: the command that reactivates it, with what has to be done before, if
    that is certain. `job` is the Job.
    """

    def __init__(self, update: JobUpdate, key: Key, reason: str, remedy: str) -> None:
        super().__init__("\n  ".join((f"Job {key} was deactivated: {reason}", remedy)))
        self.job = update.job
        self.reason = reason
        self.cause = update.cause
        self.remedy = remedy


class JobFailed(Error):
    """The Job has failed.

    `reason` and `message` are those of its condition, for example BackoffLimitExceeded. `failure` describes the pod
    that failed last: pod, container, exit code, reason, line of its error; None if its pods are gone. `exit_code` is
    that of `failure`, or the one that the cause names; None if no container failed. `cause` is that of `sluice ps`:
    `exit 3: cannot open /data/x.csv`.
    """

    def __init__(self, update: JobUpdate, key: Key, failure: Failure | None, failed_indexes: str = "") -> None:
        """`failed_indexes`: those that have failed for good, in words."""
        self.job = update.job
        self.reason = update.reason
        self.message = update.message
        self.failure = failure
        of_pods = failure.text if failure is not None else update.cause
        self.exit_code = failure.exit_code if failure is not None else exit_code_in(of_pods)
        self.cause = cause_of_end(self.reason, self.message, of_pods)
        said = self.cause.removeprefix(f"{self.reason}: ")
        super().__init__(f"Job {key} failed ({self.reason}): {of_indexes(failed_indexes, said)}")


class JobNotFound(Error, LookupError):
    """No Job of this name exists, and none has been seen before; otherwise JobDeleted is raised."""


class JobDeleted(Error):
    """The Job, which existed, was deleted; another Job may have its name now."""


class NoLogs(Error, LookupError):
    """The Job has no such index, no pod, no pod of the index that was named, or none that has started a container.

    The text says which, with the cause or the state of the Job. An eviction or a deactivation deletes the pods, and
    their logs with them.
    """


class Timeout(Error, TimeoutError):
    """The Job, or the log that is followed, has not ended in time; the Job continues. `update` is its last state."""

    def __init__(self, key: Key, seconds: float, update: JobUpdate) -> None:
        super().__init__(f"Job {key} is {update.state} after {seconds:g} s{f': {update.why}' if update.why else ''}")
        self.update = update
