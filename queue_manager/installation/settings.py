"""What an admin may set: the values of the Helm chart and of `sluice install --set`.

The descriptions become comments of deploy/chart/values.yaml and descriptions in values.schema.json.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from job_controller.quantities import MalformedQuantity, exact
from queue_manager import kube_yaml
from queue_manager.api.models.base import DNS_LABEL, DNS_SUBDOMAIN, ApiModel
from queue_manager.configuration import ConfigurationError
from queue_manager.configuration.loading import loads
from queue_manager.installation.fixed_config_fields import certificate_misfits, misfits
from queue_manager.installation.object_names import VERSION, WEBHOOK_SECRET
from queue_manager.installation.policy_settings import BREAK_GLASS_GROUP

Json = dict[str, Any]
UNPUBLISHED = "sluice"  # the image as `make image` names it: no registry has it
MANAGED: Literal["Managed"] = "Managed"
QUANTITY = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$"
PEM_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
LOG_LEVELS = r"^([\w.]+=)?(error|warning|info|debug)(,([\w.]+=)?(error|warning|info|debug))*$"
MAX_VALUES = 100_000  # YAML values in a configuration, aliases expanded
Components = Literal["Together", "Apart", "Queue", "JobController"]
Sampler = Literal[
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
]
Namespace = Annotated[str, Field(max_length=63, pattern=DNS_LABEL)]
# What needs no quoting in a CEL expression, whose text contains it.
UserName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9:._@/-]+$")]
GroupName = Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9:._@/-]*$")]

CONFIG = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
  enableClusterQueueResources: true
leaderElection:
  leaderElect: true
visibilityServer:
  bindPort: 8082
"""


def _quantity(value: object) -> object:
    """Return a quantity as it was written. Raises ValueError for another text, or a negative one."""
    try:
        amount = exact(value)  # type: ignore[arg-type]  # it refuses other types too
    except MalformedQuantity:
        raise ValueError(f"{value!r} is not a quantity, such as 500m or 1Gi") from None
    if amount < 0:
        raise ValueError(f"{value!r} is negative")
    return value


QUANTITY_SCHEMA = {"type": ["string", "number"], "pattern": QUANTITY, "minimum": 0}
Amount = Annotated[Any, AfterValidator(_quantity), WithJsonSchema(QUANTITY_SCHEMA)]
Resources = dict[Literal["requests", "limits"], dict[str, Amount] | None]


def _default_resources() -> Resources:
    return {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


class Model(ApiModel):
    """A part of the settings: camel case in files, snake case in Python; an unknown setting is an error."""


class Image(Model):
    """The container image."""

    repository: Annotated[str, Field(min_length=1)] = UNPUBLISHED
    """Registry and name, without tag. No registry has the default: load that image of `make image` onto each node, or
    push it to a registry of yours."""

    tag: str = VERSION
    """The tag; it has no effect with a digest."""

    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    """The digest, sha256:..., which pins the image exactly. Empty: the tag is used."""

    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When nodes pull the image."""


class Crds(Model):
    """The CustomResourceDefinitions of kueue.x-k8s.io."""

    install: bool = True
    """Whether they are part of the installation. `helm uninstall` keeps them and the objects of their kinds."""


class ManagerConfig(Model):
    """The configuration of the controllers."""

    controller_manager_config_yaml: str = CONFIG
    """The KueueConfig, as text. `sluice check-config` lists its mistakes; config/kueue_config.yaml explains each field.
    The ports are fixed (8443 for metrics, 8081 for probes, 8082 for the visibility API, 9443 for webhooks), and so are
    the names of the webhooks' Service and Secret; `certificates` says who issues the certificate."""

    @field_validator("controller_manager_config_yaml")
    @classmethod
    def _is_valid(cls, text: str) -> str:
        try:
            config = loads(text, "controllerManagerConfigYaml")
            if problems := misfits(config, text, "controllerManagerConfigYaml"):
                raise ConfigurationError(problems)
        except ConfigurationError as error:
            raise ValueError(_on_one_line(error)) from None
        if _tree(text).get("kind") == "ConfigMap":
            raise ValueError("is a ConfigMap; give the Configuration in it, from which the scope of webhooks is read")
        return text


class Logging(Model):
    """What the managers log to stderr."""

    format: Literal["json", "text"] = "json"
    """json: an object per line with the fields of Kueue's logs (ts, level, logger, msg). text: for people."""

    level: Annotated[str, Field(pattern=LOG_LEVELS)] = "info"
    """error, warning, info or debug; single loggers as well: info,queue_manager.engine.write_trail=debug. At debug,
    each change, sync, decision and write is a line, with the cause by which they belong together."""


class Tracing(Model):
    """Traces, sent over OTLP/HTTP as protobuf."""

    endpoint: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """The collector of OpenTelemetry, e.g. http://collector.observability:4318. Empty: no traces."""

    sampler: Sampler = "parentbased_traceidratio"
    """OTEL_TRACES_SAMPLER: always_on, always_off, traceidratio or one of them with parentbased_ before it."""

    sampler_argument: Annotated[str, Field(pattern=r"^((0(\.[0-9]+)?|1(\.0+)?))?$")] = "0.1"
    """OTEL_TRACES_SAMPLER_ARG: the fraction of causes that are traced. Unsampled ones cost little."""


def _on_one_line(error: ConfigurationError) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines())


def _tree(config: str) -> Json:
    """The fields of a valid configuration as they are written, without defaults."""
    tree: Json = kube_yaml.load(config, MAX_VALUES) or {}
    return tree


class Notifications(Model):
    """Secrets for the section `notifications` of the KueueConfig."""

    secret_name: Annotated[str, Field(max_length=253, pattern=f"{DNS_SUBDOMAIN}|^$")] = ""
    """A Secret in the namespace of the installation, each of whose keys is a file in /etc/sluice-notifications of the
    queue's pods. For a key named signing-key, write `secretFile: /etc/sluice-notifications/signing-key` in
    `notifications.webhook` of the KueueConfig. A changed Secret takes effect without a restart; an absent one stops
    notifications only. Empty: none."""


class PodDisruptionBudget(Model):
    """Limits voluntary disruptions (drains of nodes) of the replicas."""

    enabled: bool = True
    """Whether there is a PodDisruptionBudget."""

    max_unavailable: Annotated[int, Field(ge=1)] = 1
    """How many replicas may be down at once."""


class TopologySpread(Model):
    """Spreads the replicas over zones and nodes."""

    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = "ScheduleAnyway"
    """DoNotSchedule: a replica stays pending rather than share a zone or node with the other one."""


class NetworkPolicy(Model):
    """Restricts connections of the pods."""

    enabled: bool = True
    """Whether there is a NetworkPolicy. It admits the API server (webhooks, visibility API) and readers of metrics."""

    metrics_from: list[Json] = Field(default_factory=lambda: [{"namespaceSelector": {}}])
    """The peers that may read metrics, as in `ingress.from` of a NetworkPolicy. Default: all pods of the cluster."""

    restrict_egress: bool = False
    """Whether outgoing connections are limited to DNS and `apiServerPorts`."""

    api_server_ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(default_factory=lambda: [443, 6443])
    """The ports of the API server, with `restrictEgress`."""

    more_egress: list[Json] = Field(default_factory=list)
    """Further items of `egress` with `restrictEgress`, e.g. the collector of traces: [{ports: [{port: 4318}]}], or
    the receiver of notifications."""


class ServiceMonitor(Model):
    """A ServiceMonitor of the Prometheus operator."""

    enabled: bool = False
    """Whether there is one. The cluster must have the CRDs of the Prometheus operator."""

    interval: Annotated[str, Field(pattern=r"^[0-9]+(ms|s|m)$")] = "30s"
    """How often metrics are read."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels by which your Prometheus selects ServiceMonitors."""


class PrometheusRule(Model):
    """Alerts, as a PrometheusRule of the Prometheus operator."""

    enabled: bool = False
    """Whether there is one. deploy/monitoring/rules.yaml has the same rules for a Prometheus without operator."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels by which your Prometheus selects PrometheusRules."""

    runbook: str = "deploy/monitoring/RUNBOOK.md"
    """Where your admins find deploy/monitoring/RUNBOOK.md: runbook_url of an alert is this, # and the section."""


class Dashboard(Model):
    """A dashboard for Grafana."""

    enabled: bool = False
    """Whether there is a ConfigMap with deploy/monitoring/dashboard.json, which Grafana's sidecar loads."""

    labels: dict[str, str] = Field(default_factory=lambda: {"grafana_dashboard": "1"})
    """Labels by which the sidecar selects ConfigMaps."""


class Monitoring(Model):
    """Prometheus and Grafana."""

    service_monitor: ServiceMonitor = ServiceMonitor()
    """A ServiceMonitor of the Prometheus operator."""

    prometheus_rule: PrometheusRule = PrometheusRule()
    """Alerts, as a PrometheusRule of the Prometheus operator."""

    dashboard: Dashboard = Dashboard()
    """A dashboard for Grafana."""

    authorize_readers: bool = False
    """With `components: JobController` and listed `namespaces`: whether the Job controller may ask the API server who
    reads its metrics, by a binding of system:auth-delegator, its only right in the whole cluster. Without it, metrics
    on port 8443 are refused to everyone (503). The other installations have that right anyway."""


class Webhook(Model):
    """The webhooks of the manager."""

    enabled: bool = True
    """Whether there are webhook configurations and the rights that the manager needs to serve webhooks."""

    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """What happens to a write in the scope of a webhook while no manager answers. Fail: it is refused. Ignore: it
    proceeds, and the controllers suspend a Job that should have been suspended. A Job without a queue name proceeds
    with both, unless the KueueConfig sets manageJobsWithoutQueueName: then it is treated like a Job with a queue name,
    in the namespaces that managedJobsNamespaceSelector selects."""

    timeout_seconds: Annotated[int, Field(ge=1, le=5)] = 5
    """How long a write waits for an answer at most. A Job without a queue name waits for at most one second, unless the
    KueueConfig sets manageJobsWithoutQueueName."""


class CertificateIssuer(Model):
    """The issuer of cert-manager that signs the certificate."""

    kind: Literal["Issuer", "ClusterIssuer"] = "Issuer"
    """Its kind; an Issuer is in the namespace of the installation."""

    name: Annotated[str, Field(max_length=253, pattern=f"{DNS_SUBDOMAIN}|^$")] = ""
    """Its name. Empty: a self-signed Issuer that is part of the installation. Each renewal of such a certificate is a
    change of the CA too, and calls of webhooks fail until pods and caBundles both have the new one, up to a minute or
    two; an issuer with a CA of its own avoids that."""


class Certificates(Model):
    """The certificate of the webhooks, the visibility API and the metrics."""

    source: Literal["Managed", "Secret", "CertManager"] = MANAGED
    """Managed: the manager issues and renews it, and writes its CA into the caBundles. Secret: you do, in a Secret
    with tls.crt and tls.key. CertManager: cert-manager does, by a Certificate that is part of the installation, and
    its cainjector writes the caBundles. With the last two, the manager reads the mounted Secret, picks up a changed one
    without a restart, and has no right on Secrets and webhook configurations."""

    secret_name: Annotated[str, Field(max_length=253, pattern=DNS_SUBDOMAIN)] = WEBHOOK_SECRET
    """The Secret of Secret and CertManager, in the namespace of the installation. Its certificate must name the
    Services as the API server calls them, e.g. kueue-webhook-service.kueue-system.svc, sluice-conversion-service,
    kueue-visibility-server, and kueue-controller-manager-metrics-service likewise. Pods wait until it exists."""

    ca_bundle: Annotated[str, Field(pattern=f"^$|{PEM_CERTIFICATE}")] = ""
    """With Secret: the PEM certificates of the CAs that have signed it, for the caBundles of webhooks, CRDs and
    APIServices (`--set-file certificates.caBundle=ca.crt` with Helm). To change the CA, give the old and the new one
    first. Empty: the installation leaves the caBundles to you."""

    issuer: CertificateIssuer = CertificateIssuer()
    """The issuer of cert-manager that signs the certificate."""


class PolicyChoice(Model):
    """Which of the admission policies are installed; `installation.policy_settings.PolicyName` has the same names."""

    suspend_on_create: bool = True
    """A Job in a queue is created suspended."""

    managed_by: bool = False
    """A Job in a queue without `spec.managedBy` gets `spec.managedBy: sluice/job-controller`. The field cannot be
    changed later: without a Job controller of Sluice such a Job gets no pods."""

    known_manager: bool = True
    """A warning about a Job in a queue whose spec.managedBy names neither Job controller."""

    queue_name: bool = True
    """The queue of a running Job cannot change."""

    queue_name_kept: bool = True
    """A Job cannot leave its queue."""

    priority_class: bool = True
    """A running Job gets no WorkloadPriorityClass, and no Job loses its class."""

    priority_class_use: bool = False
    """Who creates a Job needs the verb `use` on its WorkloadPriorityClass. In Kueue everyone may use every class."""

    unsuspend: bool = True
    """Only the queue unsuspends a Job in a queue."""

    job_status: bool = True
    """Only Job controllers write the status of a Job in a queue."""

    pod_tracking: bool = True
    """Only Job controllers change what a pod of such a Job is counted by."""

    workload_admission: bool = True
    """Only the queue admits Workloads."""


class AdmissionPolicies(Model):
    """Rules that the API server evaluates itself, also while no manager runs."""

    enabled: bool = False
    """Whether they are part of the installation."""

    policies: PolicyChoice = PolicyChoice()
    """Which of them, with `enabled`."""

    mutating_policy_version: Literal["v1", "v1beta1", "v1alpha1", ""] = "v1"
    """The version of MutatingAdmissionPolicy that the API server serves (`kubectl api-versions`): v1 from Kubernetes
    1.36, v1beta1 from 1.34, v1alpha1 from 1.32, the latter two only where they are switched on. Empty: none, so
    `suspendOnCreate` and `managedBy` have no effect; the webhooks suspend a new Job then."""

    break_glass_group: GroupName = BREAK_GLASS_GROUP
    """Members of this group may do what the policies refuse; the audit log says so. Webhooks are not asked about their
    writes of Jobs, also without the policies. Empty: no user may."""

    queue_accounts: list[UserName] = Field(default_factory=list)
    """User names that count as the queue's beside its own service account, e.g.
    system:serviceaccount:team:batch-operator: they may unsuspend Jobs and admit Workloads."""


class Switch(Model):
    """A part that can be left out."""

    enabled: bool = True
    """Whether it is part of the installation."""


# The same as `Settings._roles_only_is_possible`, by which Helm checks values. A schema cannot read manifests, so it
# looks for the name of the kind that `cli.cluster_object_files` demands.
ROLES_ONLY: Json = {
    "if": {"properties": {"clusterObjects": {"minLength": 1}}},
    "then": {
        "properties": {
            "clusterObjects": {"pattern": "ClusterQueue"},
            "namespaces": {"minItems": 1},
            "components": {"not": {"const": "JobController"}},
            "admissionPolicies": {"properties": {"enabled": {"const": False}}},
            "monitoring": {"properties": {"serviceMonitor": {"properties": {"enabled": {"const": False}}}}},
        }
    },
}


class Settings(Model):
    """The settings of an installation."""

    model_config = ConfigDict(json_schema_extra=ROLES_ONLY)

    components: Components = "Together"
    """What runs. Together: queue and Job controller in one Deployment; the Job controller then asks the queue before it
    creates pods, so a Job has no pods before its admission even while no webhook answers. Apart: a Deployment, service
    account and Lease each, so that no process may both admit Jobs and create pods. Queue, JobController: only that
    one. The Job controller handles Jobs with `spec.managedBy: sluice/job-controller` unless the KueueConfig says
    otherwise; all others are run by kube-controller-manager."""

    namespaces: list[Namespace] = Field(default_factory=list)
    """The namespaces whose Jobs are managed, which must exist: rights on namespaced objects are then granted by Roles
    in them. Unless `clusterObjects` are given, the queue still needs a ClusterRole for kinds without a namespace
    (ClusterQueue, ResourceFlavor ...), system:auth-delegator to know who reads metrics, and with webhooks a ClusterRole
    for their CA bundles; the Job controller alone needs none. Empty: all namespaces, by ClusterRoles."""

    cluster_objects: str = ""
    """Manifests of ClusterQueues, Cohorts, ResourceFlavors, WorkloadPriorityClasses, PriorityClasses and
    RuntimeClasses, for a team without any right in the whole cluster. The queue then works by these instead of those of
    the API server in the listed `namespaces`, and the installation has Roles only: no object without a namespace, hence
    no CRDs (an admin applies `sluice crds` once), webhooks, admission policies, visibility API or roles for people;
    metrics are on loopback. `sluice install --cluster-objects FILE` lists mistakes in them. Empty: the API server has
    these objects, and the rights are in the whole cluster; so pass no empty file by `helm --set-file`, which would be
    this default."""

    replicas: Annotated[int, Field(ge=1)] = 2
    """Replicas of each Deployment. One leads, the others wait with everything loaded but the caches."""

    image: Image = Image()
    """The container image."""

    image_pull_secrets: list[Json] = Field(default_factory=list)
    """Secrets for the registry, as in a pod: [{name: ...}]."""

    resources: Resources = Field(default_factory=_default_resources)
    """Requests and limits of the container. Measured (tests/benchmarks/bench_replicas.py): the replica that leads has
    82 MiB, and 208 MiB with 5000 queued Jobs, that is 25 KiB per Job; the one that waits has 80 and 135 MiB. So the
    request is enough for 15 000 queued Jobs and the limit for 35 000."""

    priority_class_name: str = ""
    """The priority class of the pods, e.g. system-cluster-critical. Empty: none."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the nodes that may run the pods."""

    tolerations: list[Json] = Field(default_factory=list)
    """Tolerations of the pods."""

    affinity: Json = Field(default_factory=dict)
    """Affinity of the pods."""

    pod_annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations of the pods."""

    crds: Crds = Crds()
    """The CustomResourceDefinitions of kueue.x-k8s.io."""

    manager_config: ManagerConfig = ManagerConfig()
    """The configuration of the controllers."""

    admission_policies: AdmissionPolicies = AdmissionPolicies()
    """Rules that hold while no manager runs, as ValidatingAdmissionPolicy (v1, Kubernetes 1.30) and
    MutatingAdmissionPolicy (`mutatingPolicyVersion`). They apply to the Jobs that the KueueConfig manages."""

    logging: Logging = Logging()
    """What the managers log to stderr."""

    tracing: Tracing = Tracing()
    """Traces, sent over OTLP/HTTP as protobuf."""

    extra_env: list[Json] = Field(default_factory=list)
    """Further environment variables of the container, e.g. OTEL_EXPORTER_OTLP_HEADERS from a Secret."""

    notifications: Notifications = Notifications()
    """Secrets for the section `notifications` of the KueueConfig."""

    pod_disruption_budget: PodDisruptionBudget = PodDisruptionBudget()
    """Limits voluntary disruptions (drains of nodes) of the replicas."""

    topology_spread: TopologySpread = TopologySpread()
    """Spreads the replicas over zones and nodes."""

    network_policy: NetworkPolicy = NetworkPolicy()
    """Restricts connections of the pods."""

    webhook: Webhook = Webhook()
    """The admission and conversion webhooks of the manager; v1beta1 of the kinds that differ is served with them only.
    The KueueConfig says which Jobs they are asked about (manageJobsWithoutQueueName, managedJobsNamespaceSelector).
    With listed `namespaces` they are asked about these only, and about kinds without a namespace."""

    certificates: Certificates = Certificates()
    """The certificate of the webhooks, the visibility API and the metrics, with `webhook.enabled`."""

    visibility: Switch = Switch()
    """The visibility API (positions of pending Workloads) as part of the cluster's API."""

    user_roles: Switch = Switch()
    """The aggregated ClusterRoles for users, operators, admins and viewers of queues."""

    monitoring: Monitoring = Monitoring()
    """Prometheus and Grafana."""

    @model_validator(mode="after")
    def _config_fits_the_certificates(self) -> Self:
        text = self.manager_config.controller_manager_config_yaml
        name = "managerConfig.controllerManagerConfigYaml"
        if problems := certificate_misfits(loads(text, name), text, name, self.certificates.source):
            raise ValueError(_on_one_line(ConfigurationError(problems)))
        return self

    @model_validator(mode="after")
    def _roles_only_is_possible(self) -> Self:
        if not self.cluster_objects:
            return self
        if not self.namespaces or self.components == "JobController":
            raise ValueError("clusterObjects: needs the queue and listed `namespaces`")
        if self.admission_policies.enabled or self.monitoring.service_monitor.enabled:
            raise ValueError(
                "clusterObjects: without rights in the whole cluster there are no admissionPolicies, and no "
                "monitoring.serviceMonitor, because metrics are on loopback"
            )
        return self


def values_of(settings: Settings) -> Json:
    """Return the settings as in values.yaml."""
    return settings.model_dump(mode="json", by_alias=True)


def config_of(settings: Settings) -> Json:
    """Return the fields of the configuration by which objects of an installation are made, as they are written.

    The defaults are those that a Helm chart knows, which reads the same text: see `template.CONFIG_FIELDS`.
    """
    tree = _tree(settings.manager_config.controller_manager_config_yaml)
    selector = tree.get("managedJobsNamespaceSelector") or {}
    return {
        "internalCertManagement": tree.get("internalCertManagement") or {},
        "manageJobsWithoutQueueName": tree.get("manageJobsWithoutQueueName") or False,
        "managedJobsNamespaceSelector": {
            "matchLabels": selector.get("matchLabels") or {},
            "matchExpressions": selector.get("matchExpressions") or [],
        },
    }
