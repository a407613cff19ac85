"""The configuration that the running manager works by, as far as the user may read it.

A manager publishes it (`operator.config_publication`): one of listed namespaces in these, one of all in kube-public.
The ConfigMap of an installation in kueue-system is read last, for a manager of a version that did not.
"""

from __future__ import annotations

from collections.abc import Iterable

from queue_manager.api.component_names import CONFIG_MAP, NAMESPACE, PUBLISHED_LEASE
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.published_data import read_data, read_published_data
from queue_manager.configuration import ConfigurationError, KueueConfig, load
from queue_manager.configuration.config_map import KEY
from queue_manager.configuration.published_form import LEFT_OUT, config_in
from queue_manager.engine.rest_client import RestClient


def config_of_file(path: str) -> KueueConfig:
    """Return the KueueConfig of a file. Raises CommandRefused, with file and line, if it is not valid."""
    try:
        return load(path)
    except ConfigurationError as error:
        raise CommandRefused(str(error), EXIT_NEVER) from error


async def published(client: RestClient, namespaces: Iterable[str] = ()) -> KueueConfig | None:
    """Return the configuration for the Jobs of these namespaces: of several, that of a manager of all namespaces.

    None if it is absent, unreadable for the user, or of another version.
    """
    some = set(namespaces)
    own = some.pop() if len(some) == 1 else ""
    return _config(await read_published_data(client, own)) or await installed(client)


async def installed(client: RestClient, place: str = NAMESPACE) -> KueueConfig | None:
    """Return the configuration in the ConfigMap of an installation in this namespace; None as for `published`."""
    return _config(await read_data(client, place, CONFIG_MAP))


async def history_url(client: RestClient) -> str | None:
    """Return history.url of the managers, "" if they have none; None if that cannot be read.

    What they publish for all users lacks the URL of a database. The ConfigMap of their installation, which admins may
    read, has it; it is in the namespace of their Lease.
    """
    data = await read_published_data(client)
    place = data.get(PUBLISHED_LEASE, "").partition("/")[0] or NAMESPACE
    config = _config(await read_data(client, place, CONFIG_MAP)) or _config(data)
    if config is None or (not config.history.url and data.get(LEFT_OUT)):
        return None
    return config.history.url


def _config(data: dict[str, str] | None) -> KueueConfig | None:
    if not data or KEY not in data:
        return None
    try:
        return config_in(data)
    except ConfigurationError:
        return None
