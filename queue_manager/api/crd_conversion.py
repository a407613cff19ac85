"""CustomResourceDefinitions that serve v1beta1 through a conversion webhook.

With the strategy None, an API server would store what a client of v1beta1 sends under the field names of v1beta1. So
the generated definitions do not serve v1beta1 of a kind that differs between the versions, until a webhook converts it.

The Service of the conversion is not that of the other webhooks: its endpoints include managers that are not ready. A
manager becomes ready by listing the queues, and while they are stored as v1beta1 that list needs a conversion.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from queue_manager.api import component_names
from queue_manager.api.conversion import FACETS

PATH = "/convert"


def service(
    namespace: str = component_names.NAMESPACE,
    name: str = component_names.CONVERSION_SERVICE,
    ca_bundle: str | None = None,
) -> Json:
    """The clientConfig of a webhook behind a Service. `ca_bundle`: PEM in base64, None if it is injected later."""
    config: dict[str, Json] = {"service": {"namespace": namespace, "name": name, "path": PATH, "port": 443}}
    return config if ca_bundle is None else {**config, "caBundle": ca_bundle}


def converted_by(definition: Json, client_config: Json) -> Json:
    """Return a generated definition with v1beta1 served and the given webhook.

    The definition of a kind that is the same in both versions is returned unchanged: it needs no webhook.
    """
    spec = definition["spec"]
    if not FACETS[spec["names"]["kind"]]:
        return definition
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]},
    }
    versions = [{**version, "served": True} for version in spec["versions"]]
    return {**definition, "spec": {**spec, "conversion": conversion, "versions": versions}}
