"""`sluice upgrade --check`: what an upgrade of the installation would change, without changing anything.

Each object is applied in a dry run, as `kubectl apply --server-side` would apply it, and compared with the live one. So
the answer includes defaults of the API server, fields that the new version no longer sets, and refusals by admission.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Literal, TypeAlias

import msgspec

from job_controller.json_tree import Json
from queue_manager.api.api_resources import CRDS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS, Resource
from queue_manager.cli import output
from queue_manager.cli.connection import connect
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, EXIT_UNEXPECTED
from queue_manager.cli.install import command_of, read_settings
from queue_manager.cli.installation_part import without_others
from queue_manager.cli.installed_objects import Live, RolesOnly, installed, is_installed, releases, roles_only
from queue_manager.cli.machine_formats import MACHINE_FORMS, object_name
from queue_manager.cli.output import TableColumn
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import APPLY_PATCH, ApiError, Request
from queue_manager.installation import object_names
from queue_manager.installation.objects import objects
from queue_manager.installation.upgrade_changes import FieldChange, changes, release_of

POD_TEMPLATE = "spec.template."
TAKE_OVER = "apply with --force-conflicts to take the field over"
NEEDS_SETTINGS = (
    "rights in namespaces suffice for an installation with Roles only: give --namespaced and --cluster-objects, as "
    "for its installation"
)
NOT_OURS = "it is not Sluice's; where Kueue runs, sluice adopt takes over from it first"
KUBECTL, HELM = "kubectl", "helm"  # field managers
UNANSWERED = "no manager answers it after the upgrade, so it refuses Jobs and queues: {}"
NOT_INSTALLED = "Sluice is not installed; to install it: {}"

ObjectKey: TypeAlias = tuple[str, str, str]  # kind, namespace, name
Result = Literal["refuses Jobs", "created", "changed", "restarted", "conflict", "refused", "left over"]


class UpgradeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change of one object. `result`: what `kubectl apply --server-side` would do to it.

    restarted: its pods are replaced. conflict: another field manager owns the field, so the apply is
    refused without --force-conflicts. refused: by the API server, or because the cluster does not serve the kind.
    left over: the object is no longer part of the installation, and the apply
    leaves it. refuses Jobs: it is left over, and a webhook configuration that refuses writes then.
    """

    kind: str
    namespace: str
    name: str
    result: Result
    change: str


COLUMNS = (
    TableColumn("OBJECT", lambda row: f"{row.kind}/{row.name}"),
    TableColumn("NAMESPACE", lambda row: row.namespace or "-"),
    TableColumn("RESULT", lambda row: row.result),
    TableColumn("CHANGE", lambda row: row.change, wrap=True),
)


def run(args: argparse.Namespace) -> int:
    """Print what an upgrade would change; return the exit code."""
    settings = read_settings(args)
    where = roles_only(args.namespace, settings.namespaces) if settings.cluster_objects else None
    return asyncio.run(_run(args, objects(settings, args.namespace), where))


async def _run(args: argparse.Namespace, wanted: list[Json], where: RolesOnly | None) -> int:
    async with connect(args.kubeconfig, args.context, forbidden=NEEDS_SETTINGS) as client:
        found = without_others(await installed(client, where), args.namespace)
        rows = await check(client, wanted, found)
    shown, said, notice = rows, "nothing would change", ""
    if is_absent(found) and args.output not in MACHINE_FORMS and any(row.result == "created" for row in rows):
        shown, said = [row for row in rows if row.result != "created"], NOT_INSTALLED.format(command_of(args))
        notice = said if shown else ""
    output.show(args.output, COLUMNS, shown, said, notice=notice, row_type=UpgradeRow, name=object_name)
    sys.stdout.flush()
    if any(row.result in ("conflict", "refused") for row in rows):
        return EXIT_NEVER
    return EXIT_UNEXPECTED if rows else EXIT_OK


def is_absent(found: list[Live]) -> bool:
    """Whether there is no more of an installation than what `sluice uninstall` leaves: CRDs and the namespace."""
    return all(resource in (CRDS, NAMESPACES) for resource, _ in found)


async def check(client: RestClient, wanted: list[Json], found: list[Live]) -> list[UpgradeRow]:
    """Return what applying the wanted objects would change. `found`: the installed objects of the cluster."""
    by_helm = bool(releases(found))
    rows = [row for obj in wanted for row in await _check_object(client, obj, by_helm=by_helm)]
    left = left_over(found, wanted)
    first = [row for row in left if row.result == "refuses Jobs"]
    return [*first, *rows, *(row for row in left if row not in first)]


def left_over(found: list[Live], wanted: list[Json]) -> list[UpgradeRow]:
    """Return the installed objects that are not wanted, each with the command that deletes it.

    Of a Namespace, which may have objects of others, the command removes the label only.
    """
    known = {_key(obj) for obj in wanted}
    rows = []
    for resource, live in found:
        if (key := _key({**live, "kind": resource.kind})) in known:
            continue
        option = f" -n {key[1]}" if key[1] else ""
        command = f"kubectl delete {resource}{option} {key[2]}"
        if resource == NAMESPACES:  # others may have objects in it
            command = f"kubectl label namespace {key[2]} {object_names.NAME_LABEL}-"
        if _refuses_writes(resource, live, known):
            rows.append(_row(key, "refuses Jobs", UNANSWERED.format(command)))
        else:
            rows.append(_row(key, "left over", command))
    return rows


def _refuses_writes(resource: Resource, live: Json, known: set[ObjectKey]) -> bool:
    """Whether a webhook configuration that is left over refuses writes, because its Service is left over too.

    `helm upgrade` deletes the configurations of its release itself.
    """
    if resource not in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS) or release_of(live):
        return False
    hooks = [hook for hook in live.get("webhooks") or () if hook.get("failurePolicy") == "Fail"]
    services = [service for hook in hooks if (service := (hook.get("clientConfig") or {}).get("service"))]
    return any(("Service", service["namespace"], service["name"]) not in known for service in services)


def _key(obj: Json) -> ObjectKey:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


async def _check_object(client: RestClient, obj: Json, *, by_helm: bool) -> list[UpgradeRow]:
    resource, key = object_names.resource_of(obj), _key(obj)
    try:
        live = await client.get(resource, key[1], key[2])
    except ApiError as error:
        if not error.is_not_found:
            raise
        if error.is_unserved:
            return [_row(key, "refused", f"the cluster does not serve {resource.kind} as {resource.version}")]
        return [_row(key, "created", "does not exist yet")]
    # `helm install --create-namespace` makes the namespace itself, with a label; no release has it.
    manager = HELM if by_helm and resource != NAMESPACES else KUBECTL
    foreign = "" if is_installed(live) else f"; {NOT_OURS}"
    taken: list[UpgradeRow] = []
    try:
        try:
            applied = await _dry_run(client, obj, manager, force=False)
        except ApiError as error:
            if not error.is_conflict:
                raise
            taken = [_row(key, "conflict", f"{' '.join(error.message.split())}; {TAKE_OVER}{foreign}")]
            applied = await _dry_run(client, obj, manager, force=True)
    except ApiError as error:
        return [*taken, _row(key, "refused", f"{error.message}{foreign}")]
    return taken + [_row(key, _result(change), str(change)) for change in changes(live, applied)]


def _result(change: FieldChange) -> Result:
    return "restarted" if change.path.startswith(POD_TEMPLATE) else "changed"


async def _dry_run(client: RestClient, obj: Json, manager: str, *, force: bool) -> Json:
    """Return the object as server-side apply would leave it. Raises ApiError."""
    resource, metadata = object_names.resource_of(obj), obj["metadata"]
    query = {"dryRun": "All", "fieldManager": manager, "force": str(force).lower()}
    path = resource.path(metadata.get("namespace", ""), metadata["name"])
    body = msgspec.json.encode(obj)
    answer = await client.transport.request(Request("PATCH", path, query, body, APPLY_PATCH))
    if not answer.is_success:
        raise ApiError.of(answer.status, answer.body, answer.headers)
    tree: Json = msgspec.json.decode(answer.body)
    return tree


def _row(key: ObjectKey, result: Result, change: str) -> UpgradeRow:
    return UpgradeRow(kind=key[0], namespace=key[1], name=key[2], result=result, change=change)
