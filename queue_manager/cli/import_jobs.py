"""`sluice import`: brings Jobs that run outside of every queue into one, without stopping them.

Without `--apply` it reads only, and prints for each Job what would happen, or why it is refused. It returns what
`--apply` would: EXIT_UNEXPECTED if a Job stays outside, also for a lack of quota. A user without the rights for it is
refused in both cases. With `--apply`, which is refused while no manager runs, for each Job:

1. Create its Workload, marked as an import.
2. Wait until the scheduler has admitted it, within the quota and without a preemption.
3. Label the Job with its queue. From then on it is a Job as any other in the queue.

The import may be interrupted after each of these (`jobs.import_rules`): the Job runs on, and the same command continues
from there. What is not
admitted in time is taken back.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from queue_manager import kube_yaml
from queue_manager.adoption.job_imports import Import, ImportStep, plan
from queue_manager.adoption.queue_mapping import MappingError, QueueRule, rules_from, rules_of_label
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.cli import output, own_rights
from queue_manager.cli.connection import connect, read_default_namespace
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, EXIT_UNEXPECTED, CommandRefused
from queue_manager.cli.import_reading import ImportView, read_view
from queue_manager.cli.import_steps import IMPORTED, OUTSIDE, Importer, ImportRow, qualified, row_of
from queue_manager.cli.machine_formats import MACHINE_FORMS, job_names
from queue_manager.cli.manager_reading import read_presence
from queue_manager.cli.output import TableColumn
from queue_manager.cli.own_rights import Right
from queue_manager.cli.standard_streams import say, write
from queue_manager.engine.request_throttle import throttled
from queue_manager.engine.rest_client import RestClient
from queue_manager.visibility.manager_presence import notice

SETTLED = (ImportStep.SKIP, ImportStep.REFUSE, ImportStep.DONE)  # steps without a write
EMPTY = "There are no unfinished Jobs in these namespaces."
IN_QUEUE = "in a queue"
MAX_VALUES = 100_000  # YAML values in a file of rules, aliases expanded
POLL_SECONDS = 0.5
PROGRESS_SECONDS = 5.0
COLUMNS = (
    TableColumn("JOB", lambda row: f"{row.namespace}/{row.name}"),
    TableColumn("QUEUE", lambda row: row.queue),
    TableColumn("WHAT HAPPENS", lambda row: row.text, wrap=True),
)


def run(args: argparse.Namespace) -> int:
    """Print or perform the import; return the exit code."""
    return asyncio.run(_run(args, read_rules(args)))


async def _run(args: argparse.Namespace, rules: list[QueueRule]) -> int:
    async with connect(args.kubeconfig, args.context) as connected:
        client = RestClient(throttled(connected.transport, (args.qps, args.burst)))
        view = await read_view(client, args.namespace, rules)
        await own_rights.check(client, (each for name in args.namespace for each in needed(name)))
        seen = await read_presence(client, args.namespace[0])
        if args.apply and seen.absent and seen.is_certain:
            raise CommandRefused(f"{notice(seen)}; so nothing was changed: a manager admits what is imported")
        plans = [item for job in view.jobs if (item := plan(job, view.workloads, view.around)) is not None]
        if not args.apply:
            rows = [describe(item, reason) for item, reason in zip(plans, view.refusals(plans), strict=True)]
            show(args, rows)
            if args.output not in MACHINE_FORMS:
                _summary(view, rows, notice(seen))
            return exit_code(rows)
        rows = await carry_out(client, plans, view, args.timeout)
    show(args, rows)
    return report(rows, view.left_out, quiet=args.output in MACHINE_FORMS)


def needed(namespace: str) -> Iterator[Right]:
    """Yield what `--apply` needs in a namespace."""
    yield from (Right(verb, WORKLOADS, namespace) for verb in ("create", "delete"))
    yield Right("patch", JOBS, namespace)


def show(args: argparse.Namespace, rows: Sequence[ImportRow]) -> None:
    """Print a row per Job."""
    own = args.namespace[0] if len(args.namespace) == 1 else read_default_namespace(args)
    output.show(args.output, COLUMNS, rows, EMPTY, row_type=ImportRow, name=job_names(own))


def read_rules(args: argparse.Namespace) -> list[QueueRule]:
    """Return the rules that the options state: which queue each Job gets. Raises CommandRefused."""
    if args.to_queue:
        return [QueueRule(to_local_queue=args.to_queue)]
    if args.queuemapping_file:
        return _from_file(args.queuemapping_file)
    if not args.queuelabel or not args.queuemapping:
        raise CommandRefused(
            "say which queue: --to-queue, --queuelabel with --queuemapping, or --queuemapping-file", EXIT_NEVER
        )
    pairs = [pair.partition("=") for pair in args.queuemapping.split(",")]
    wrong = [value for value, _, queue in pairs if not queue]
    if wrong:
        raise CommandRefused(f"--queuemapping: {wrong[0]!r} names no queue; write VALUE=QUEUE,...", EXIT_NEVER)
    return rules_of_label(args.queuelabel, {value: queue for value, _, queue in pairs})


def _from_file(path: str) -> list[QueueRule]:
    try:
        return rules_from(kube_yaml.load(Path(path).read_text(encoding="utf-8"), MAX_VALUES))
    except OSError as error:
        raise CommandRefused(f"{path}: {error.strerror}", EXIT_NEVER) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandRefused(f"{path}: is not YAML: {' '.join(str(error).split())}", EXIT_NEVER) from error
    except MappingError as error:
        raise CommandRefused(f"{path}: {error}", EXIT_NEVER) from error


def describe(item: Import, refusal: str) -> ImportRow:
    """Return the row of a Job. `refusal`: why the scheduler would not admit its Workload, or ""."""
    return row_of(item, _text(item, refusal))


def _text(item: Import, refusal: str) -> str:
    if item.step is ImportStep.DONE:
        return IN_QUEUE
    if item.why:
        return f"{item.step}: {item.why}"
    return f"{OUTSIDE}: {refusal}" if refusal else IMPORTED


def _summary(view: ImportView, rows: Sequence[ImportRow], without_manager: str) -> None:
    counts = Counter(row.result for row in rows)
    if counts:
        write("\n" + ", ".join(f"{text}: {count}" for text, count in counts.items()))
    if view.left_out:
        write(view.left_out)
    if view.not_seen:
        write(f"You may not see {view.not_seen}: only --apply finds out whether quota is free")
    if without_manager:
        write(without_manager)
    write("Nothing was changed. To make these changes: sluice import ... --apply")


async def carry_out(client: RestClient, plans: list[Import], view: ImportView, timeout: float) -> list[ImportRow]:
    """Import the Jobs; return what became of each. `timeout`: seconds to wait for the next admission."""
    importer = Importer(client, view.around)
    settled = [describe(item, "") for item in plans if item.step in SETTLED]
    wanted = {qualified(item.job): item for item in plans if item.step not in SETTLED}
    done = await _advance(importer, wanted, timeout)
    rest = [await importer.take_back(item) for key, item in wanted.items() if key not in done]
    return sorted([*settled, *done.values(), *rest])


async def _advance(importer: Importer, wanted: Mapping[str, Import], timeout: float) -> dict[str, ImportRow]:
    """Perform writes until all imports are decided, or none was decided for `timeout` seconds. Return their results."""
    done: dict[str, ImportRow] = {}
    clock = asyncio.get_running_loop().time
    progress = reported = clock()
    last_left = 0
    while len(done) < len(wanted) and clock() - progress < timeout:
        decided = await importer.advance([item for key, item in wanted.items() if key not in done])
        if decided:
            done |= decided
            progress = clock()
        left = len(wanted) - len(done)
        if left != last_left and not decided and clock() - reported >= PROGRESS_SECONDS:
            reported, last_left = clock(), left
            say(f"waiting for admission; pending Workloads: {left}")
        if left:
            await asyncio.sleep(POLL_SECONDS)
    return done


def left_outside(rows: Sequence[ImportRow]) -> list[ImportRow]:
    """Return the rows of Jobs that a rule selects and that stay, or would stay, outside of their queue."""
    return [row for row in rows if row.result in (str(ImportStep.REFUSE), OUTSIDE)]


def exit_code(rows: Sequence[ImportRow]) -> int:
    """Return EXIT_UNEXPECTED if a Job stays outside, or would do so."""
    return EXIT_UNEXPECTED if left_outside(rows) else EXIT_OK


def report(results: list[ImportRow], left_out: str = "", *, quiet: bool = False) -> int:
    """Return EXIT_UNEXPECTED if a Job that a rule selects stays outside. Unless `quiet`, print it and what is left."""
    outside = left_outside(results)
    if outside and not quiet:
        write(f"\nJobs that stay outside of the queue: {len(outside)} of {len(results)}; repeat the command to retry")
    if left_out and not quiet:
        write(left_out)
    return exit_code(results)
