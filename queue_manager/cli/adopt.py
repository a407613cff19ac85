"""`sluice adopt`: takes over a cluster from Kueue, and gives it back (`--undo`).

Without `--apply` it reads only, and prints what would happen to each Workload, what Sluice does not do that Kueue did,
and the changes that `--apply` makes:

1. Save everything that is changed or replaced, for `--undo`.
2. Rewrite objects that are stored as v1beta1, so that no conversion webhook is needed to read them. With the CRDs of
   a Kueue that stores v1beta1 that is possible only after `sluice install`: by the same command once more.
3. Scale Kueue's manager to 0 and wait for its pods to end: two managers would undo each other's writes.
4. Delete its Deployment, whose name Sluice's has too, its webhook configurations and its APIService.

Then `sluice install` brings Sluice's manager. Running Jobs run on meanwhile. New Jobs with a queue name are suspended
as soon as the manager runs.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from queue_manager.adoption.kueue_installation import InstalledObject, Treatment
from queue_manager.adoption.losses import Loss, losses
from queue_manager.adoption.workload_fates import MEANING, count_fates
from queue_manager.api.api_resources import CONFIG_MAPS, NAMESPACES, SECRETS
from queue_manager.api.component_names import CONFIG_MAP, NAMESPACE
from queue_manager.cli import adoption_steps, output
from queue_manager.cli.adoption_reading import KueueCluster, is_rewritable, read
from queue_manager.cli.connection import connect
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.machine_formats import MACHINE_FORMS
from queue_manager.cli.output import TableColumn
from queue_manager.cli.standard_streams import write
from queue_manager.cli.stop_report import counted
from queue_manager.configuration.config_map import KEY

NEXT = "Next: sluice install --namespace {namespace} | kubectl apply --server-side --force-conflicts -f -"
NEXT_WITH_CONFIG = (
    "Next, so that Kueue's configuration stays in effect:\n"
    "  kubectl -n {namespace} get configmap {config_map} -o jsonpath='{{.data.{key}}}' > kueue-config.yaml\n"
    "  sluice install --namespace {namespace} --config kueue-config.yaml"
    " | kubectl apply --server-side --force-conflicts -f -"
)
REWRITTEN = "objects stored as v1beta1 are rewritten as v1beta2"
UNCONVERTED = "converted without a webhook: its versions have the same fields"
LATER = "objects stored as v1beta1 are rewritten by the same command after `sluice install`"
REPLACED = "saved; `sluice install` replaces it"
CONFIGURED = "saved; `sluice install` replaces it by the defaults, unless --config passes what it has"
EMPTIED = "saved without its data; `sluice install` replaces it"
LABELLED = "labels saved; `sluice install` sets its own, and those of Pod Security"
SAVED = {NAMESPACES: LABELLED, SECRETS: EMPTIED}  # other kinds: REPLACED
MAX_LOSSES = 40  # rows printed; the others are counted


class AdoptRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the plan. `about`: Workloads of one fate, an object that is lost, or one that is changed."""

    about: Literal["workloads", "loss", "change"]
    object: str
    what: str
    count: int = 1


FATES = (
    TableColumn("COUNT", lambda row: str(row.count)),
    TableColumn("FATE", lambda row: row.object),
    TableColumn("WHAT HAPPENS", lambda row: row.what, wrap=True),
)
LOSSES = (TableColumn("OBJECT", lambda row: row.object), TableColumn("WHY", lambda row: row.what, wrap=True))
CHANGES = (TableColumn("OBJECT", lambda row: row.object), TableColumn("CHANGE", lambda row: row.what, wrap=True))


def run(args: argparse.Namespace) -> int:
    """Print what a takeover would do, make it, or undo it; return the exit code."""
    if args.output in MACHINE_FORMS and (args.apply or args.undo):
        raise CommandRefused(f"-o {args.output} is for the plan, without --apply and --undo", EXIT_NEVER)
    return asyncio.run(_undo(args) if args.undo else _adopt(args))


async def _adopt(args: argparse.Namespace) -> int:
    async with connect(args.kubeconfig, args.context) as client:
        cluster = await read(client, args.namespace)
        _check_place(cluster, args.namespace)
        found = losses(cluster.objects)
        rows = plan(cluster, found)
        if args.output in MACHINE_FORMS:
            output.show(args.output, (), rows, "", row_type=AdoptRow)
            return EXIT_OK
        show(rows)
        if not args.apply:
            if not any(row.about == "change" for row in rows):
                return EXIT_OK
            accepting = " --accept-losses" if found else ""
            write(f"\nNothing was changed. To make these changes: sluice adopt{_place(args)} --apply{accepting}")
            return EXIT_OK
        if found and not args.accept_losses:
            raise CommandRefused(
                f"{counted(len(found), 'thing')} listed above would be lost; pass --accept-losses to take over "
                "all the same"
            )
        await adoption_steps.take_over(client, cluster, args.save, args.timeout)
    if cluster.is_kueues:
        write(f"Kueue is stopped; `sluice adopt --undo {args.save}` restores it.")
        write(next_steps(cluster, args.namespace))
    if any(not is_rewritable(crd) for crd in cluster.outdated):
        write(f"{'Then' if cluster.is_kueues else 'After that'}: sluice adopt{_place(args)} --apply, once more")
    return EXIT_OK


def _place(args: argparse.Namespace) -> str:
    """Return the option that names the namespace of Kueue's manager; "" for its default."""
    return f" -n {args.namespace}" if args.namespace != NAMESPACE else ""


def _check_place(cluster: KueueCluster, namespace: str) -> None:
    """Raise CommandRefused if Kueue's manager runs elsewhere: its webhooks would stay, and refuse each new Job."""
    places = sorted({item.namespace for item in cluster.installed if item.treatment is Treatment.STOP})
    if places and namespace not in places:
        raise CommandRefused(
            f"Kueue's manager runs in namespace {', '.join(places)}, not in {namespace}: name it with -n {places[0]}",
            EXIT_NEVER,
        )


async def _undo(args: argparse.Namespace) -> int:
    async with connect(args.kubeconfig, args.context) as client:
        await adoption_steps.give_back(client, args.undo, args.namespace, args.timeout, force=args.accept_losses)
    write(
        f"Kueue's objects are restored; its manager starts again. {args.undo} stays: move it away before the next "
        "`sluice adopt --apply`, which refuses it if Kueue was changed meanwhile."
    )
    return EXIT_OK


def plan(cluster: KueueCluster, found: list[Loss]) -> list[AdoptRow]:
    """Return what happens to Workloads, what is lost, and the changes that --apply makes, in this order."""
    counts = count_fates(cluster.objects.workloads, cluster.objects.jobs)
    fates = [AdoptRow(about="workloads", object=fate, what=MEANING[fate], count=n) for fate, n in counts.items()]
    lost = [AdoptRow(about="loss", object=loss.object, what=loss.what) for loss in found]
    return [*fates, *lost, *(AdoptRow(about="change", object=name, what=what) for name, what in _changes(cluster))]


def next_steps(cluster: KueueCluster, namespace: str) -> str:
    """Return the commands that install Sluice in Kueue's place, with Kueue's configuration if it decides anything."""
    if not cluster.has_own_settings:
        return NEXT.format(namespace=namespace)
    return NEXT_WITH_CONFIG.format(namespace=namespace, config_map=CONFIG_MAP, key=KEY.replace(".", r"\."))


def _changes(cluster: KueueCluster) -> Iterator[tuple[str, str]]:
    """Yield each object that --apply changes, and how."""
    for item in cluster.installed:
        yield _full_name(item), str(item.treatment)
    if cluster.config is not None and cluster.has_own_settings:
        meta = cluster.config["metadata"]
        yield f"{CONFIG_MAPS.kind} {meta['namespace']}/{meta['name']}", CONFIGURED
    if cluster.is_kueues:
        for resource, tree in cluster.replaced:
            yield f"{resource.kind} {tree['metadata']['name']}", SAVED.get(resource, REPLACED)
    for crd in cluster.needlessly_converted:
        yield crd["metadata"]["name"], UNCONVERTED
    for crd in cluster.outdated:
        yield crd["metadata"]["name"], REWRITTEN if is_rewritable(crd) else LATER


def show(rows: Sequence[AdoptRow]) -> None:
    """Print the plan for people: three tables, of losses the first MAX_LOSSES."""
    by_topic = {topic: [row for row in rows if row.about == topic] for topic in ("workloads", "loss", "change")}
    lost = by_topic["loss"]
    _print("Workloads", FATES, by_topic["workloads"], "There are no Workloads.")
    write("")
    _print("What is lost", LOSSES, lost[:MAX_LOSSES], "Nothing is lost.")
    if len(lost) > MAX_LOSSES:
        write(f"... and {len(lost) - MAX_LOSSES} more")
    write("")
    _print("Changes", CHANGES, by_topic["change"], "Kueue is not installed: there is nothing to stop.")


def _full_name(item: InstalledObject) -> str:
    name = f"{item.namespace}/{item.name}" if item.namespace else item.name
    return f"{item.resource.kind} {name}"


def _print(title: str, columns: Sequence[TableColumn], rows: Sequence[AdoptRow], empty: str) -> None:
    if rows:
        write(title)
    output.show("table", columns, rows, empty)
