"""Chooses the LocalQueue of a Job of `sluice run`, and checks its priority class.

BEHAVIOUR.md#q150-the-queue-of-a-run.
"""

from __future__ import annotations

from job_controller.model import Key
from queue_manager.api.api_resources import LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES
from queue_manager.api.types import LocalQueue, WorkloadPriorityClass
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.named_targets import check_local_queue, unknown_namespace
from queue_manager.cli.permitted_lists import seen
from queue_manager.cli.queue_reading import read_queues
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.visibility.similar_names import did_you_mean

DEFAULT_QUEUE = "default"  # of a namespace with several queues, as in Kueue
MAX_NAMES = 10  # in a message


async def choose_queue(client: RestClient, namespace: str, queue: str | None) -> str:
    """Return `queue` (-q) if it is not empty, else the LocalQueue `default` of the namespace, else its only one.

    Raises CommandRefused if that leaves no queue, if `queue` does not exist, or if the user may not list the queues.
    """
    if queue:
        await check_local_queue(client, Key(namespace, queue))
        return queue
    names = sorted(await _local_queues(client, namespace))
    if len(names) == 1 or DEFAULT_QUEUE in names:
        return DEFAULT_QUEUE if DEFAULT_QUEUE in names else names[0]
    if not names:
        nothing = f"namespace {namespace} has no LocalQueue; `sluice queues` lists those of others"
        raise CommandRefused(await unknown_namespace(client, namespace) or nothing, EXIT_NEVER)
    more = f" and {len(names) - MAX_NAMES} more, which `sluice queues` lists" if len(names) > MAX_NAMES else ""
    listed = f"{', '.join(names[:MAX_NAMES])}{more}"
    raise CommandRefused(
        f"namespace {namespace} has {len(names)} LocalQueues: choose one with -q: {listed}", EXIT_NEVER
    )


async def check_priority_class(client: RestClient, queue: Key, name: str) -> None:
    """Raise CommandRefused if this WorkloadPriorityClass does not exist: no Workload would be created.

    Unknown to the user, and so not an error, are classes that they may not list, and those of a manager that has its
    queues from files. `queue`: the LocalQueue.
    """
    classes = await seen(client, WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
    known = None if classes is None else sorted(found.metadata.name for found in classes)
    if known is None or name in known or (await read_queues(client, [queue.namespace])).is_unlisted(queue):
        return
    hint = did_you_mean(name, known) or (
        f"there are: {', '.join(known[:MAX_NAMES])}" if known else "the cluster has none"
    )
    raise CommandRefused(f"WorkloadPriorityClass {name} does not exist; {hint}", EXIT_NEVER)


async def _local_queues(client: RestClient, namespace: str) -> list[str]:
    try:
        return [found.metadata.name for found in await client.list(LOCAL_QUEUES, namespace, type=LocalQueue)]
    except ApiError as error:
        if not error.is_forbidden:
            raise
        text = f"you may not list the LocalQueues of namespace {namespace}: name one with -q"
        raise CommandRefused(text, EXIT_NEVER) from error
