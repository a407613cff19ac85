"""`Client`: the verbs of a user on Jobs, on top of the official client."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson
from kubernetes.client import ApiException, BatchV1Api, V1DeleteOptions, V1Job, V1Preconditions
from kubernetes.watch import Watch
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed
from urllib3.exceptions import HTTPError

from job_controller import conditions
from job_controller.model import Job, Key
from queue_manager.api.keys import QUEUE_NAME
from queue_manager.api.types import Workload
from queue_manager.cli.connection import find_kubeconfig
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.job_deletion import announce
from queue_manager.cli.login_name import name_user, submitter
from queue_manager.cli.refused_pod_reading import read_refusals
from queue_manager.client import job_logs
from queue_manager.client.error_translation import translated_errors
from queue_manager.client.errors import (
    JobDeactivated,
    JobDeleted,
    JobFailed,
    JobNotFound,
    NeverStarts,
    RequestFailed,
    Timeout,
)
from queue_manager.client.job_requests import create_job, read_visible_pods, read_workloads
from queue_manager.client.job_update import (
    ENDED,
    LOST,
    JobUpdate,
    Seen,
    differs,
    follow,
    lacks_cause,
    may_have_cause,
    see,
    with_refusal,
)
from queue_manager.client.never_starts import ObstacleChecks
from queue_manager.client.official_transport import blocking
from queue_manager.durations import Duration, argument_seconds
from queue_manager.engine import kubeconfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.json_codec import decoder
from queue_manager.lifecycle.pod_causes import decisive_pods
from queue_manager.visibility.attempt_counts import count_budget_attempts
from queue_manager.visibility.deactivated_jobs import certain_action
from queue_manager.visibility.followed_states import is_outdated
from queue_manager.visibility.job_causes import failed_indexes
from queue_manager.visibility.job_states import JobState, shown_cause
from queue_manager.visibility.obstacles import Obstacle
from queue_manager.visibility.pod_failures import Failure, newest_failure
from queue_manager.visibility.short_messages import cause_first, plain
from queue_manager.visibility.wait_goals import IN_NO_QUEUE
from queue_manager.visibility.wire_types import Pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

REFRESH_SECONDS = 1.0  # a change of the Workload alone is seen this late
RUNNING_REFRESH_SECONDS = 15.0  # then every change that matters is one of the Job as well
CONFIRM_POLL_SECONDS = 0.25  # between two reads of what may keep a new Job from starting
QUEUE_IT = f"set its label {QUEUE_NAME}, or spec.suspend to false"
LOST_SECONDS = 60.0  # how long a server that does not answer is asked again
REQUEST_SECONDS = 10.0  # after which the official client tries a request without answer again, three times
PASSING_STATUSES = (429, 500, 502, 503, 504)


class Client:
    """Submits and follows Jobs through an ApiClient of the package `kubernetes`.

    `namespace` is used for Jobs that name none. `user`: whose Jobs it submits, for the history, unless a Job names one;
    on a cluster with the webhook only a service account submits for others.

    A Job is given to the methods as a V1Job, or as "NAME" or "NAMESPACE/NAME". A V1Job that came from the server means
    that very Job, not a later one of the same name. A duration (`timeout`) is a number of seconds, a text such as "90s"
    or "1h30m", or a timedelta; ValueError is raised for any other value. None: without limit.

    Each method raises RequestFailed if the API server answers with an error, and ClusterUnreachable if it does not
    answer; these two are not repeated below.
    """

    def __init__(self, api_client: ApiClient, *, namespace: str = "default", user: str = "") -> None:
        self.api_client = api_client
        self.namespace = namespace
        self.user = user
        self._batch = BatchV1Api(api_client)
        self._kubeconfig: Path | None = None

    @classmethod
    def from_kubeconfig(cls, path: str | Path | None = None, context: str | None = None) -> Self:
        """A client of the cluster in a kubeconfig, in the namespace of its context.

        Without `path` it is the kubeconfig of the commands: $KUBECONFIG, else the one of `sluice up`, else
        ~/.kube/config. On a cluster of `sluice up` the user is the login name, as for the commands. The cluster is not
        contacted. Raises FileNotFoundError, and ValueError for a malformed file or an unknown context.
        """
        from kubernetes.config import ConfigException, new_client_from_config

        try:
            file = find_kubeconfig(None if path is None else str(path), option="the argument `path`")
        except CommandRefused as error:
            raise FileNotFoundError(str(error)) from error
        home = kubeconfig.namespace(file, context) or "default"
        try:
            api_client = new_client_from_config(config_file=str(file), context=context)
        except ConfigException as error:
            raise ValueError(f"{file}: {error}") from error
        client = cls(api_client, namespace=home, user=submitter(file))
        client._kubeconfig = file
        return client

    def submit(
        self,
        job: V1Job | Mapping[str, Any],
        *,
        queue: str | None = None,
        namespace: str | None = None,
        check: bool = True,
    ) -> V1Job:
        """Create a Job and return it as the server has it. It is suspended until its queue admits it.

        `queue`: the LocalQueue, for a Job without the label of one. `namespace`: for a Job that names none. Without
        both label and `queue` the Job is in no queue, and starts immediately unless it is suspended. The argument is
        not changed.

        Creates nothing and raises RequestFailed with status 400 for an unknown field, 422 for an invalid Job, 409 if
        its name is taken; ValueError if it names another queue or namespace than the call.

        Raises NeverStarts if the Job can never start, for instance because its queue does not exist: it was created and
        stays, and is the error's `job`. (`sluice submit -q` creates nothing if the queue does not exist.)
        `check=False` skips that, which costs some reads per Job: for a program that submits thousands, or creates the
        queue later.
        """
        tree = self._manifest(job)
        meta = _mapping(tree, "metadata")
        home = _agreed("namespace", meta.get("namespace"), namespace) or self.namespace
        if queue is not None:
            labels = _mapping(meta, "labels")
            labels[QUEUE_NAME] = _agreed("queue", labels.get(QUEUE_NAME), queue)
            _mapping(tree, "spec")["suspend"] = True  # the queue starts it
        name_user(meta, self.user)
        with self._translated():
            key = blocking(self.api_client, lambda client: create_job(client, home, tree))
        with self._translated(f"Job {key} was created, but cannot be read: "):
            created = self._read(key, "")
        if check:
            self._check(created)
        return created

    def get(self, job: V1Job | str) -> JobUpdate:
        """The Job and its state now. Raises JobNotFound and JobDeleted."""
        with self._translated():
            return self._see(*self._identity(job)).update

    def watch(self, job: V1Job | str, *, timeout: Duration | None = None) -> Iterator[JobUpdate]:
        """Yield the Job now and after each change of its state, reason or counts of pods, until it has ended.

        Raises JobNotFound, JobDeleted, and Timeout if the Job has not ended after `timeout`. A server that does not
        answer is asked again for a minute before ClusterUnreachable is raised.
        """
        return self._watch(job, _limit(timeout))

    def _watch(self, job: V1Job | str, seconds: float | None) -> Iterator[JobUpdate]:
        last: Seen | None = None
        with self._translated():
            for seen in self._follow(job, seconds):
                if differs(seen, last):
                    yield seen.update
                last = seen

    def wait(self, job: V1Job | str, *, timeout: Duration | None = None) -> V1Job:
        """Return the Job once it has succeeded.

        Raises JobFailed with the cause; NeverStarts, also for one that is suspended and in no queue, and JobDeactivated
        immediately, not after the timeout; JobNotFound, JobDeleted, and Timeout after `timeout`, at most one second
        late while the server answers; the Job continues then. A server that does not answer is asked again for a minute
        before ClusterUnreachable is raised; one that accepts connections and hangs is noticed within minutes only.
        """
        checks = ObstacleChecks(self.api_client, self.namespace)
        with self._translated():
            for seen in self._follow(job, _limit(timeout)):
                state = seen.update.state
                if state == JobState.SUCCEEDED:
                    return seen.update.job
                if state == JobState.FAILED:
                    raise self._failed(seen)
                if (found := _obstacle_now(checks, seen)) is not None:
                    raise NeverStarts(seen.update.job, seen.job.metadata.key, found.text, found.remedy)
                if state in LOST:
                    raise self._lost(seen)
                if state == JobState.SUSPENDED:
                    raise NeverStarts(seen.update.job, seen.job.metadata.key, IN_NO_QUEUE, QUEUE_IT)
        raise AssertionError("unreachable: a Job that is not followed any more has ended")

    def logs(
        self, job: V1Job | str, *, index: int | None = None, container: str = "", tail_lines: int | None = None
    ) -> str:
        """The log of the newest pod of the Job, or of an index of it; of a failed Job that of the newest pod that has
        failed. Raises NoLogs, JobNotFound and JobDeleted.

        "" is the log of a container that has printed nothing. Before a container has started, if none could be started,
        and once an eviction has deleted the pods, NoLogs is raised, with the cause or the state of the Job.
        `container`: by default the one that failed, else the first. `tail_lines`: only so many lines of its end.
        """
        with self._translated():
            seen = self._see(*self._identity(job))
            source = job_logs.source(self.api_client, seen.job, index, container, _state(seen))
            return job_logs.read(self.api_client, source, tail_lines)

    def follow_logs(
        self, job: V1Job | str, *, index: int | None = None, container: str = "", timeout: Duration | None = None
    ) -> Iterator[str]:
        """Yield the lines of the log that `logs` returns, as they are written, until the container ends.

        A line has no line break at its end. Raises NoLogs, also for a Job that is deactivated before a container has
        started; JobNotFound, JobDeleted, and Timeout if the container has not ended after `timeout`, which the wait for
        its start is part of; the Job continues then. After ClusterUnreachable, which is raised as soon as the
        connection breaks, `logs` has the whole log.
        """
        return self._follow_logs(job, index, container, _limit(timeout))

    def _follow_logs(self, job: V1Job | str, index: int | None, container: str, seconds: float | None) -> Iterator[str]:
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        with self._translated():
            for seen in self._follow(job, seconds):
                wait = seen.update.state not in (*ENDED, *LOST)
                source = job_logs.source(self.api_client, seen.job, index, container, _state(seen), wait=wait)
                if source is None:
                    continue
                meta = seen.job.metadata
                try:
                    yield from job_logs.follow(self.api_client, source, deadline)
                except TimeoutError:
                    raise Timeout(meta.key, seconds or 0, self._see(meta.key, meta.uid).update) from None
                return

    def cancel(self, job: V1Job | str) -> None:
        """Delete the Job, and return without waiting: its pods are ended before it disappears.

        A Job that does not exist is left alone, and so is another one that has its name now. One that has ended is
        deleted too, with its pods and logs, which `sluice cancel` leaves. The history names the client's `user`.
        """
        key, uid = self._identity(job)
        preconditions = V1Preconditions(uid=uid) if uid else None
        options = V1DeleteOptions(propagation_policy="Foreground", preconditions=preconditions)
        try:
            with self._translated():
                self._name_canceller(key, uid)
                self._batch.delete_namespaced_job(key.name, key.namespace, body=options)
        except RequestFailed as error:
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):  # 409: another Job has its name now
                raise

    def _name_canceller(self, key: Key, uid: str) -> None:
        """Annotate a Job that has not ended with the user who cancels it, if that is known."""
        if not self.user:
            return
        try:
            found = self._struct(self._read(key, uid))
        except (JobNotFound, JobDeleted):
            return
        if uid in ("", found.metadata.uid) and conditions.finished(found.status) is None:
            blocking(self.api_client, lambda client: announce(client, found, self.user))

    # --- following ---

    def _follow(self, job: V1Job | str, seconds: float | None) -> Iterator[Seen]:
        """Yield the state of the Job now and at each possible change; ends after a state in which the Job has ended."""
        key, uid = self._identity(job)
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        watch = Watch()
        last: Seen | None = None
        while True:
            now = self._see_patiently(key, uid, deadline)
            if last is not None and is_outdated(last.update.state, now.update.state):
                now = self._see_patiently(key, uid, deadline)
            last = seen = follow(last, now)
            uid = seen.job.metadata.uid
            yield seen
            if seen.update.state in ENDED:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise Timeout(key, seconds or 0, seen.update)
            self._await_event(watch, seen, left)

    def _see_patiently(self, key: Key, uid: str, deadline: float) -> Seen:
        repeated = Retrying(
            retry=retry_if_exception(_is_passing),
            wait=wait_fixed(REFRESH_SECONDS),
            stop=stop_after_delay(min(deadline - time.monotonic(), LOST_SECONDS)),
            reraise=True,
        )
        return repeated(self._see, key, uid)

    def _await_event(self, watch: Watch, seen: Seen, seconds: float) -> None:
        """Return at the next change of the Job, at the latest after `seconds`, rounded up, or after the refresh."""
        refresh = RUNNING_REFRESH_SECONDS if seen.update.state == JobState.RUNNING else REFRESH_SECONDS
        meta = seen.job.metadata
        events = watch.stream(
            self._batch.list_namespaced_job,
            meta.namespace,
            field_selector=f"metadata.name={meta.name}",
            resource_version=meta.resource_version,
            timeout_seconds=(longest := math.ceil(min(seconds, refresh))),
            _request_timeout=longest + REQUEST_SECONDS,
        )
        try:
            with closing(events):
                next(events, None)
        except (ApiException, HTTPError, OSError) as error:
            if not _is_passing(error):
                raise

    def _see(self, key: Key, uid: str) -> Seen:
        """Read the clock, the Workload and then the Job, in this order.

        Raises JobDeleted if it is not the one with this UID any more, and JobNotFound if none is given or found.
        """
        uid = uid or self._struct(self._read(key, "")).metadata.uid
        now = SystemClock().now()
        workloads = blocking(self.api_client, lambda client: read_workloads(client, key.namespace, uid))
        official = self._read(key, uid)
        job = self._struct(official)
        if job.metadata.uid != uid:
            raise JobDeleted(f"Job {key} was deleted; another one has its name now")
        pods = self._pods(job) if may_have_cause(job) else []
        seen = see(official, job, workloads, pods, now)
        if not lacks_cause(seen):
            return seen
        events = blocking(self.api_client, lambda client: read_refusals(client, key.namespace))
        return with_refusal(seen, events or [])

    def _pods(self, job: Job) -> list[Pod]:
        return blocking(self.api_client, lambda client: read_visible_pods(client, job))

    def _read(self, key: Key, uid: str) -> V1Job:
        try:
            return self._batch.read_namespaced_job(key.name, key.namespace, _request_timeout=REQUEST_SECONDS)
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        if uid:
            raise JobDeleted(f"Job {key} was deleted")
        raise JobNotFound(f"Job {key} does not exist")

    # --- ends ---

    def _check(self, created: V1Job) -> None:
        """Raise NeverStarts if a Job that was just created can never start. A failed read is ignored."""
        checks = ObstacleChecks(self.api_client, self.namespace)
        try:
            while True:
                seen = self._see(*self._identity(created))
                found = checks.obstacle(seen)
                if found is not None:
                    raise NeverStarts(created, seen.job.metadata.key, found.text, found.remedy)
                if seen.update.state != JobState.PENDING or not checks.is_confirming:
                    return
                time.sleep(CONFIRM_POLL_SECONDS)  # an obstacle counts once it has lasted
        except (ApiException, HTTPError, OSError, JobDeleted):
            return  # the Job exists, or has existed: what is wrong is seen by `wait`

    def _failed(self, seen: Seen) -> JobFailed:
        return JobFailed(seen.update, seen.job.metadata.key, self._failure(seen), failed_indexes(seen.job))

    def _lost(self, seen: Seen) -> NeverStarts | JobDeactivated:
        """The exception for a Job that stays stopped until a user changes it, with the failure of its last attempt."""
        update, key = seen.update, seen.job.metadata.key
        attempts = count_budget_attempts(seen.workload) if seen.workload is not None else 0
        text = plain(update.reason, update.message, attempts=attempts)
        cause = shown_cause(seen.workload, update.state, update.reason, update.message, update.cause)
        why = cause_first(cause, update.reason, update.message, text)
        if update.state == JobState.DEACTIVATED:
            return JobDeactivated(update, key, why, _reactivation(key, seen.workload))
        return NeverStarts(update.job, key, ": ".join(part for part in (update.state, why) if part))

    def _failure(self, seen: Seen) -> Failure | None:
        found = newest_failure(decisive_pods(seen.job.status, self._pods(seen.job)))
        return None if found is None else job_logs.with_error_line(self.api_client, found)

    # --- objects and errors ---

    def _translated(self, prefix: str = "") -> AbstractContextManager[None]:
        """Errors of the official client and of its connection become those of `errors`."""
        return translated_errors(self.api_client.configuration.host, self._kubeconfig, prefix)

    def _manifest(self, job: V1Job | Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(job, V1Job | Mapping):
            raise TypeError(f"a Job is a V1Job or a mapping with the fields of a manifest, not {type(job).__name__}")
        tree: dict[str, Any] = self.api_client.sanitize_for_serialization(
            dict(job) if isinstance(job, Mapping) else job
        )
        return {"apiVersion": "batch/v1", "kind": "Job", **tree}

    def _struct(self, job: V1Job) -> Job:
        return decoder(Job).decode(orjson.dumps(self._manifest(job)))

    def _identity(self, job: V1Job | str) -> tuple[Key, str]:
        """Key and UID of a Job; "" if only its name is known."""
        if isinstance(job, str):
            namespace, _, name = job.rpartition("/")
            return Key(namespace or self.namespace, name), ""
        if not isinstance(job, V1Job):
            raise TypeError(f"a Job is a V1Job or its name, not {type(job).__name__}: pass what submit returned")
        meta = job.metadata
        if meta is None or not meta.name:
            raise ValueError("the Job has no name: pass what submit returned")
        return Key(meta.namespace or self.namespace, meta.name), meta.uid or ""


def _mapping(parent: dict[str, Any], name: str) -> dict[str, Any]:
    """A field of a manifest that is a mapping; an empty one is set if it is missing. Raises TypeError."""
    found = parent.get(name)
    if not isinstance(found, dict | None):
        raise TypeError(f"{name} of a Job is a mapping, not {type(found).__name__}")
    filled: dict[str, Any] = found or {}
    parent[name] = filled
    return filled


def _limit(timeout: Duration | None) -> float | None:
    """The seconds of the argument `timeout`; None: without limit. Raises ValueError."""
    return None if timeout is None or timeout == math.inf else argument_seconds("timeout", timeout)


def _reactivation(key: Key, workload: Workload | None) -> str:
    """What starts a deactivated Job again: the command, and what has to be done before, if that is certain."""
    return certain_action(workload, str(key)) if workload is not None else f"sluice reactivate {key}"


def _state(seen: Seen) -> str:
    """The state of a Job with its reason: `Pending: WaitingForQuota`."""
    return ": ".join(part for part in (seen.update.state, seen.update.why) if part)


def _agreed(what: str, own: str | None, given: str | None) -> str:
    """The value that the Job has (`own`), else the argument (`given`). Raises ValueError if both are set and differ."""
    if own and given and own != given:
        raise ValueError(f"the Job names {what} {own}, the call names {given}")
    return own or given or ""


def _obstacle_now(checks: ObstacleChecks, seen: Seen) -> Obstacle | None:
    """What keeps the Job from ever starting; None if the server cannot say it now, as it is asked again."""
    try:
        return checks.obstacle(seen)
    except (ApiException, HTTPError, OSError) as error:
        if not _is_passing(error):
            raise
        return None


def _is_passing(error: BaseException) -> bool:
    """Whether to repeat a request after this error; after 410 the watch begins anew."""
    if isinstance(error, ApiException):
        return error.status in (*PASSING_STATUSES, HTTPStatus.GONE)
    return isinstance(error, (HTTPError, OSError))
