"""`sluice uninstall`: removes an installation; running Jobs keep running, and the CRDs stay unless they are named.

The order keeps writes possible and Jobs running:

1. what makes the API server call the manager (webhooks, APIServices), and policies, so that no request waits for it;
2. the Deployments, and then a wait until their pods are gone and the Leases are free: a manager that still runs would
   stop each Job whose Workload is deleted;
3. the conversion of the CRDs that stay, which no manager answers from now on (`installation.conversion_removal`);
4. everything else with the label of an installation, but neither the namespace nor the CRDs; ClusterRoles that the
   cluster collects from others come last (`cli.aggregated_roles`);
5. the Leases of the managers, which would pass for those of a manager that is down;
6. with --crds the CRDs, whose objects are deleted with them: their finalizers, which only a manager would remove, are
   removed here. CRDs of the group without the label stay, and are reported: another installation may use them.

An installation with Roles only is removed with rights in its namespaces, which have all of it. Where several stand on a
cluster, `cli.installation_part` decides what belongs to the one in a namespace.

Each wait ends after --timeout, with what it waited for. What the API server cannot answer meanwhile is asked again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from job_controller.conditions import finished
from job_controller.json_tree import Json
from job_controller.managed_by import BUILT_IN_MANAGER, OWN_MANAGER
from job_controller.model import Job, Key, Object
from queue_manager.api.api_resources import CRDS, JOBS, LEASES, PODS, WORKLOADS, Resource
from queue_manager.api.component_names import JOB_CONTROLLER_LEASE, LEASE
from queue_manager.cli.aggregated_roles import is_aggregated, is_leftover, is_settled
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.connection import NoResponse, connect
from queue_manager.cli.conversion_reset import SERVICES, reset_conversions
from queue_manager.cli.crds import KINDS, finish_delete
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.installation_part import InstallationPart, installation_part
from queue_manager.cli.installed_objects import (
    Live,
    RolesOnly,
    all_installed,
    all_of_kind,
    find_roles_only,
    installed,
    releases,
    roles_only,
)
from queue_manager.cli.own_rights import Right, is_allowed
from queue_manager.cli.standard_streams import say
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation import object_names
from queue_manager.installation.upgrade_changes import release_of
from queue_manager.jobs.workload_manifest import queue_name

FIRST = (
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "MutatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "APIService",
)
PROCESSES = "Deployment"
CLUSTER_ROLES = object_names.KINDS["ClusterRole"]
STAYS = ("Namespace", "CustomResourceDefinition")
LEASE_NAMES = (LEASE, JOB_CONTROLLER_LEASE)
PAUSE_SECONDS = 0.5
STILL_RUNS = (
    "still runs; stop it first (a pod whose node is lost: kubectl delete pod --force): it stops Jobs "
    "whose Workloads are deleted"
)
NEEDS_NAMESPACES = "rights in namespaces suffice for an installation with Roles only: name them with --namespaced"
NOT_ITS_CRDS = (
    "the installation in namespace {} has Roles only, and CRDs are not part of it: remove it without --crds; an admin "
    "of the cluster deletes CRDs that no installation needs: sluice crds | kubectl delete -f -"
)
SHARED_CRDS = "the installation in namespace {} uses the CRDs: remove this one without --crds"
OF_OTHERS = "they refer to another namespace; without --namespace they are deleted"
NOT_ITS_CRD = (
    "not part of the installation; to delete it with its objects, if nothing else needs it: "
    "`sluice crds | kubectl delete --wait=false -f -`, then `sluice crds --finish-delete`"
)
NO_CRD_OF_SLUICE = "not part of the installation; Sluice has no such kind"
PENDING, OWN_PENDING = "pending", f"pending, managed by {OWN_MANAGER}"
RUNNING, OWN_RUNNING = "running", f"running, managed by {OWN_MANAGER}"
OWN_WITHOUT_PODS = f"without running pods, managed by {OWN_MANAGER}"
FOREIGN = "running, managed by others"
NOTES = {  # what happens to the unfinished Jobs of each group once no manager runs
    PENDING: "suspended until spec.suspend is set to false, or a manager runs again",
    OWN_PENDING: "suspended until a manager runs again; setting spec.suspend to false starts no pods without one",
    OWN_RUNNING: "the pods keep running; their status follows when a manager runs again",
    OWN_WITHOUT_PODS: "no pods are created, and the status stays, until a manager runs again",
    RUNNING: "handled by the cluster's own Job controller",
    FOREIGN: "handled by the controllers that spec.managedBy names",
}
REPORT_SECONDS = 10.0  # between lines that say what the command waits for
LATE_SECONDS = 4.0  # in which the cluster may write an aggregated ClusterRole that Helm has deleted
SETTLE_SECONDS = 10.0  # for an aggregated ClusterRole to follow the deletion of those that it collects
TOUCH_SECONDS = 8.0  # an API server confirms after five seconds that no object is left


def run(args: argparse.Namespace) -> int:
    """Remove the installation; return the exit code."""
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    async with connect(args.kubeconfig, args.context, forbidden=NEEDS_NAMESPACES) as client:
        with ChangeReport(args.output, dry_run=args.dry_run) as report:
            chosen = args.namespace or object_names.DEFAULT_NAMESPACE
            where = roles_only(chosen, args.namespaced) if args.namespaced else None
            where = where or await find_roles_only(client, chosen)
            if where is not None and args.crds:
                raise CommandRefused(NOT_ITS_CRDS.format(where.namespace), EXIT_NEVER)
            part = await read_part(client, where, args.namespace or "")
            removal = _Removal(client, report, part, where, args.timeout, args.dry_run)
            await uninstall(report, removal, crds=args.crds)
    return report.end("nothing of Sluice is installed")


async def read_part(client: RestClient, where: RolesOnly | None, chosen: str) -> InstallationPart:
    """Return the installation that is to be removed: with Roles only, or for the cluster in the namespace `chosen`."""
    if where is not None:
        return InstallationPart(where.namespace, await installed(client, where))
    return installation_part(await all_installed(client), chosen)


async def uninstall(report: ChangeReport, removal: _Removal, *, crds: bool) -> None:
    """Delete the installation in order. Raises CommandRefused if a manager does not end in time."""
    part = removal.part
    found = part.objects
    if crds and part.crd_users:
        raise CommandRefused(SHARED_CRDS.format(" and ".join(part.crd_users)), EXIT_NEVER)
    _refuse_release(found)
    await removal.delete([each for each in found if each[0].kind in FIRST])
    await removal.delete([each for each in found if each[0].kind == PROCESSES])
    await removal.wait_for_managers()
    definitions = [each for each in found if each[0] == CRDS]
    if not crds:
        await removal.reset_conversions(found)
    others = [each for each in found if each[0].kind not in (*FIRST, PROCESSES, *STAYS)]
    await removal.delete([each for each in others if not is_aggregated(each[1])])
    if removal.where is None and not part.others:
        await removal.delete_aggregated([each for each in others if is_aggregated(each[1])])
        if any(release_of(definition) for _, definition in definitions):  # Helm keeps CRDs
            await removal.delete_late_roles()
    await removal.delete_leases()
    if removal.where is None:
        await removal.report_other_definitions(definitions, every=crds)
    if crds:
        await removal.delete_definitions(definitions)
    elif definitions:
        note = f"{_used_by(part)} uses them" if part.others else "with all queues and Workloads; --crds deletes them"
        report.add(CRDS.kind, "", "*.kueue.x-k8s.io", "unchanged", note)
    for kind, number in Counter(kind.kind for kind, _ in part.kept).items():
        note = f"{_used_by(part)} uses them" if part.others else OF_OTHERS
        report.add(kind, "", f"{number} shared", "unchanged", note)
    if not part.others:
        await removal.report_jobs()


def _used_by(part: InstallationPart) -> str:
    return f"the installation in namespace {' and '.join(part.others)}"


def _refuse_release(found: list[Live]) -> None:
    """Raise CommandRefused for an installation by Helm: `helm uninstall` must remove it, with its release record."""
    for release in releases(found):
        raise CommandRefused(
            f"installed by Helm: run `helm uninstall {release.name} --namespace {release.namespace}`, which keeps Jobs "
            "and CRDs too, and then this command again, for what Helm leaves"
        )


class _Removal:
    """The steps of an uninstallation on one cluster."""

    def __init__(
        self,
        client: RestClient,
        report: ChangeReport,
        part: InstallationPart,
        where: RolesOnly | None,
        timeout: float,
        dry_run: bool,
    ) -> None:
        """`where`: the namespaces of an installation with Roles only; None for one for the whole cluster."""
        self._client = client
        self._report = report
        self.part = part
        self.where = where
        self._namespace = part.namespace
        self._timeout = timeout
        self._dry_run = dry_run

    async def delete(self, found: list[Live]) -> None:
        """Delete objects and report each."""
        for resource, obj in found:
            key = key_of(obj)
            if await self._report.perform(resource.kind, key, self._delete(resource, key, obj["metadata"]["uid"])):
                self._report.add(resource.kind, *key, "deleted", "part of the installation")

    async def _delete(self, resource: Resource, key: Key, uid: str) -> None:
        if self._dry_run:
            return
        try:
            await self._client.delete(resource, *key, uid=uid, propagation="Background")
        except ApiError as error:
            if not error.is_not_found:
                raise

    async def wait_for_managers(self) -> None:
        """Wait until no pod of a manager is left and no Lease is held."""
        if not self._dry_run:
            await self._until(self._running, STILL_RUNS)

    async def _running(self) -> str:
        """Return a manager that still runs, or ""."""
        pods = await self._client.list(PODS, self._namespace, label_selector=f"{object_names.SELECTOR},control-plane")
        if pods:
            return f"pod {self._namespace}/{pods[0]['metadata']['name']}"
        for name in LEASE_NAMES:
            holder = await self._holder(name)
            if holder:
                return f"manager {holder}, which holds the Lease {self._namespace}/{name},"
        return ""

    async def _holder(self, lease: str) -> str:
        try:
            spec = (await self._client.get(LEASES, self._namespace, lease))["spec"]
        except ApiError as error:
            if error.is_not_found:
                return ""
            raise
        if not spec.get("holderIdentity") or not spec.get("renewTime"):
            return ""
        ends = datetime.fromisoformat(spec["renewTime"]) + timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
        return str(spec["holderIdentity"]) if ends > datetime.now(UTC) else ""

    async def delete_leases(self) -> None:
        """Delete the Leases of the managers, which they have released; they have no label, as those of Kueue.

        The owner of an installation with Roles only may lack the right to do so.
        """
        for name in LEASE_NAMES:
            right = Right("delete", LEASES, self._namespace, name)
            if self.where is not None and not await is_allowed(self._client, right):
                continue
            try:
                lease = await self._client.get(LEASES, self._namespace, name)
            except ApiError as error:
                if not error.is_not_found:
                    raise
                continue
            await self.delete([(LEASES, lease)])

    async def reset_conversions(self, found: list[Live]) -> None:
        """Remove the conversion webhook of the CRDs that stay if its Service is being deleted, or is gone already."""
        removed = {key_of(obj) for resource, obj in found if resource == SERVICES}
        definitions = [obj for resource, obj in found if resource == CRDS]
        await reset_conversions(self._client, self._report, definitions, removed, dry_run=self._dry_run)

    async def delete_aggregated(self, roles: list[Live]) -> None:
        """Delete the ClusterRoles that the cluster collects, each when the cluster has nothing left to write in it.

        A cluster whose controller for that does not run leaves them as they are, so the wait is short.
        """
        for resource, role in roles:
            if not self._dry_run:
                with contextlib.suppress(CommandRefused):
                    unsettled = partial(self._unsettled, role["metadata"]["name"])
                    await self._until(unsettled, "is not up to date", min(SETTLE_SECONDS, self._timeout))
            await self.delete([(resource, role)])
        await self._delete_leftover_roles()

    async def delete_late_roles(self) -> None:
        """Delete what the cluster creates anew after `helm uninstall`, until nothing has come for LATE_SECONDS.

        Its controller decides on a write before the deletion and waits for its rate limit, so the write comes late.
        """
        end = time.monotonic() + LATE_SECONDS
        while not self._dry_run and time.monotonic() < end:
            await asyncio.sleep(LATE_SECONDS / 20)
            if await self._delete_leftover_roles():
                end = time.monotonic() + LATE_SECONDS

    async def _delete_leftover_roles(self) -> bool:
        """Delete the ClusterRoles that the cluster has created anew; return whether there were some."""
        leftovers = [role for role in await all_of_kind(self._client, CLUSTER_ROLES) if is_leftover(role)]
        await self.delete([(CLUSTER_ROLES, role) for role in leftovers])
        return bool(leftovers)

    async def _unsettled(self, name: str) -> str:
        """Return the aggregated ClusterRole if the cluster has yet to write its rules."""
        roles = {role["metadata"]["name"]: role for role in await all_of_kind(self._client, CLUSTER_ROLES)}
        return "" if name not in roles or is_settled(roles[name], roles.values()) else f"ClusterRole {name}"

    async def report_other_definitions(self, definitions: list[Live], *, every: bool) -> None:
        """Report each CRD of the group that stays because it lacks the label, as those of `sluice crds` do.

        `every`: also those of kinds that Sluice does not have.
        """
        ours = {str(resource) for resource in KINDS}
        deleted = {key_of(obj).name for _, obj in definitions}
        for definition in await all_of_kind(self._client, CRDS):
            name = key_of(definition).name
            is_other = definition["spec"]["group"] == WORKLOADS.group and name not in deleted
            if is_other and (every or name in ours):
                note = NOT_ITS_CRD if name in ours else NO_CRD_OF_SLUICE
                self._report.add(CRDS.kind, "", name, "unchanged", note)

    async def delete_definitions(self, definitions: list[Live]) -> None:
        """Delete the CRDs and with them all objects of their kinds, whose finalizers are removed.

        A kube-apiserver that is replacing the storage of a kind at this moment ("storage is (re)initializing") can give
        up the deletion of its CRD. Any change of the CRD makes it try again.
        """
        await self.delete(definitions)
        if self._dry_run:
            return
        touched = time.monotonic()

        async def left() -> str:
            nonlocal touched
            await finish_delete(self._client, self._report, dry_run=False)
            rest = await self._client.list(CRDS, label_selector=object_names.SELECTOR)
            if time.monotonic() - touched > TOUCH_SECONDS:
                touched = time.monotonic()
                for definition in rest:
                    await self._touch(definition)
            return await self._obstacle(rest[0]) if rest else ""

        await self._until(left, "is still there")

    async def _obstacle(self, definition: Json) -> str:
        """Return the CRD, with an object of its kind whose finalizer keeps it."""
        name = definition["metadata"]["name"]
        for resource in (each for each in KINDS if str(each) == name):
            with contextlib.suppress(ApiError):  # the kind may be served no longer
                for obj in await self._client.list(resource, type=Object):
                    if obj.metadata.finalizers:
                        held = f"{resource.kind} {obj.metadata.key} with the finalizer {obj.metadata.finalizers[0]}"
                        return f"CRD {name}, because of {held},"
        return f"CRD {name}"

    async def _touch(self, definition: Json) -> None:
        change = {"metadata": {"annotations": {"sluice/deletion-repeated": datetime.now(UTC).isoformat()}}}
        try:
            await self._client.patch(CRDS, "", definition["metadata"]["name"], change)
        except ApiError as error:
            if not error.is_not_found:
                raise

    async def report_jobs(self) -> None:
        """Report what becomes of the unfinished Jobs without a manager."""
        managed = self.where.namespaces if self.where is not None else ("",)
        jobs = [job for namespace in managed for job in await self._client.list(JOBS, namespace, type=Job)]
        for name, note in left_behind(jobs):
            self._report.add(JOBS.kind, "", name, "unchanged", note)

    async def _until(self, running: Callable[[], Awaitable[str]], problem: str, timeout: float | None = None) -> None:
        """Repeat `running` until it returns "". Raises CommandRefused with what it returned after `timeout` seconds."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        report_at = time.monotonic() + REPORT_SECONDS
        while rest := await _answer(running, deadline):
            now = time.monotonic()
            if now >= deadline:
                raise CommandRefused(f"{rest} {problem}")
            if now >= report_at:
                report_at = now + REPORT_SECONDS
                say(f"sluice uninstall: waits for {rest.removesuffix(',')}")
            await asyncio.sleep(PAUSE_SECONDS)


def key_of(obj: Json) -> Key:
    """Return namespace and name of an object."""
    return Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


async def _answer(running: Callable[[], Awaitable[str]], deadline: float) -> str:
    """Return what `running` returns, or the API server as the obstacle if it cannot answer for now."""
    try:
        async with asyncio.timeout(max(PAUSE_SECONDS, deadline - time.monotonic())):
            return await running()
    except (NoResponse, TimeoutError):
        return "the API server, which does not answer,"
    except ApiError as error:
        if not error.is_passing:
            raise
        return f"the API server, which answers {error.status} ({error.message}),"


def left_behind(jobs: list[Job]) -> Iterator[tuple[str, str]]:
    """Yield (how many Jobs of which kind, what happens to them) of the unfinished Jobs once no manager runs."""
    unfinished = [job for job in jobs if finished(job.status) is None]
    groups = Counter(group for job in unfinished if (group := _group(job)) is not None)
    for group, note in NOTES.items():
        if groups[group]:
            yield f"{groups[group]} {group}", note


def _group(job: Job) -> str | None:
    """Return to which of NOTES an unfinished Job belongs; None for one that its user has suspended."""
    manager = job.spec.managed_by
    if job.spec.suspend:
        if not queue_name(job):
            return None
        return OWN_PENDING if manager == OWN_MANAGER else PENDING
    if manager == OWN_MANAGER:
        return OWN_RUNNING if job.status.active else OWN_WITHOUT_PODS
    return RUNNING if manager in (None, BUILT_IN_MANAGER) else FOREIGN
