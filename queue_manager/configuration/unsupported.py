"""Sections of things that Sluice does not do: read and checked, named as ignored, without effect."""

# ruff: noqa: RUF009 - `setting` only wraps an immutable default

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from queue_manager.configuration.selector import LabelSelector
from queue_manager.configuration.setting import MINUTE, Opaque, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOptions:
    """Which single pods to manage."""

    namespace_selector: LabelSelector | None = setting("Their namespaces.")
    pod_selector: LabelSelector | None = setting("Their labels.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClassMapping:
    """Device classes that count as one resource."""

    name: str = setting("The resource.", "")
    device_class_names: tuple[str, ...] = setting("The device classes.", ())
    sources: Opaque | None = setting("Where the devices are counted.", since="v1beta2")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomLabel:
    """A label or annotation that becomes a label of metrics."""

    name: str = setting("The label is custom_<name>.", "")
    source_label_key: str = setting("The label it comes from.", "")
    source_annotation_key: str = setting("The annotation it comes from.", "")
    source_kind: Literal["ClusterQueue", "LocalQueue", "Cohort", "Workload"] = setting(
        "The kind it is read from.", "ClusterQueue", since="v1beta2"
    )
    tracked_values: tuple[str, ...] = setting("Values that are told apart.", (), since="v1beta2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The webhook server of Kueue."""

    port: int = setting("Its port.", 9443, minimum=0, maximum=65535)
    host: str = setting("The address it binds to.", "")
    cert_dir: str = setting("Where its certificate is.", "/tmp/k8s-webhook-server/serving-certs")


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalCertManagement:
    """Certificates that Kueue makes itself."""

    enable: bool = setting("Whether it makes them.", True)
    webhook_service_name: str = setting("The Service that they are for.", "kueue-webhook-service")
    webhook_secret_name: str = setting("The Secret that they are kept in.", "kueue-webhook-server-cert")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS of Kueue's servers."""

    min_version: str = setting("VersionTLS12 or VersionTLS13.", "")
    cipher_suites: tuple[str, ...] = setting("Not with VersionTLS13.", ())
    curve_preferences: Opaque | None = setting("Curves, in order of preference.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalFramework:
    """A kind that MultiKueue dispatches."""

    name: str = setting("As Kind.version.group.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalDispatcher:
    """Nominates clusters step by step."""

    step_size: int = setting("Clusters per step.", 3, minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiKueue:
    """Dispatch to other clusters."""

    gc_interval: timedelta = setting("How often leftovers are collected.", MINUTE, minimum=timedelta(0))
    origin: str = setting("Label value that marks what came from here.", "multikueue")
    worker_lost_timeout: timedelta = setting(
        "How long a lost cluster keeps its Workloads.", 15 * MINUTE, minimum=timedelta(0)
    )
    dispatcher_name: str = setting("Who chooses the cluster.", "kueue.x-k8s.io/multikueue-dispatcher-all-at-once")
    external_frameworks: tuple[ExternalFramework, ...] = setting("Further kinds.", ())
    cluster_profile: Opaque | None = setting("Credentials of clusters.", since="v1beta2")
    incremental_dispatcher_config: IncrementalDispatcher | None = setting(
        "For the incremental dispatcher.", since="v1beta2"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityServer:
    """The visibility API."""

    bind_address: str = setting("The address it binds to. Empty: all.", "")
    bind_port: int = setting("Its port.", 8082, minimum=1, maximum=65535)
