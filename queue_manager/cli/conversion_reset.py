"""Ends the conversion of the CRDs that an uninstallation keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from job_controller.json_tree import Json
from job_controller.model import Key
from queue_manager.api.api_resources import CRDS, Resource
from queue_manager.cli.change_report import ChangeReport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation import object_names
from queue_manager.installation.conversion_removal import FIELD_MANAGER, conversion_service, next_step, served_alone

SERVICES: Resource = object_names.KINDS["Service"]
ATTEMPTS = 10  # two writes, and those that meet a change by the API server itself


async def reset_conversions(
    client: RestClient, report: ChangeReport, definitions: list[Json], removed: Collection[Key], *, dry_run: bool
) -> None:
    """End the conversion of each CRD whose Service does not exist, or is in `removed`, and report it."""
    async for definition in _unanswered(client, definitions, removed):
        name = definition["metadata"]["name"]
        version = served_alone(definition)
        if not version:
            stored = ", ".join(definition["status"]["storedVersions"])
            report.add(
                CRDS.kind,
                "",
                name,
                "unchanged",
                f"objects may be stored as any of {stored}: until a new installation converts them, their reads fail",
            )
        elif await report.perform(CRDS.kind, Key("", name), _reset(client, name, dry_run=dry_run)):
            note = f"only {version} is served until a new installation converts other versions"
            report.add(CRDS.kind, "", name, "changed", note)


async def _unanswered(client: RestClient, definitions: list[Json], removed: Collection[Key]) -> AsyncIterator[Json]:
    """Yield the CRDs whose conversion Service is gone, or whose reset an interrupted command did not complete."""
    exists: dict[Key, bool] = dict.fromkeys(removed, False)
    for definition in definitions:
        service = conversion_service(definition)
        if service is None:
            if next_step(definition) is not None:
                yield definition
            continue
        if service not in exists:
            exists[service] = await _exists(client, service)
        if not exists[service]:
            yield definition


async def _exists(client: RestClient, service: Key) -> bool:
    try:
        await client.get(SERVICES, *service)
    except ApiError as error:
        if not error.is_not_found:
            raise
        return False
    return True


async def _reset(client: RestClient, name: str, *, dry_run: bool) -> None:
    """Patch a CRD until `next_step` finds nothing to change; a conflict is tried again. With `dry_run` change nothing.

    Raises ApiError, also if conflicts keep it from being complete after ATTEMPTS patches.
    """
    if dry_run:
        return
    conflict: ApiError | None = None
    for _ in range(ATTEMPTS):
        change = next_step(await client.get(CRDS, "", name))
        if change is None:
            return
        try:
            await client.patch(CRDS, "", name, change, field_manager=FIELD_MANAGER)
        except ApiError as error:
            if not error.is_conflict:
                raise
            conflict = error
    if conflict is not None:
        raise conflict
