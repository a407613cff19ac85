"""The two kinds of admission policy as the rules return them, and the API objects that stand for them.

Each policy has one binding, which selects the namespaces. No policy matches an object that is being deleted, so that
none keeps a finalizer from being removed. The exemption of the break-glass group is part of each validation and not a
match condition: only so the API server writes the audit annotation for a request of that group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.installation import cel_texts
from queue_manager.installation.policy_settings import PolicySettings

GROUP = "admissionregistration.k8s.io"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
NOT_DELETED = {"is-not-being-deleted": "!has(object.metadata.deletionTimestamp)"}
BREAKS_GLASS = "variables.breaksGlass"


@dataclass(frozen=True, slots=True)
class Target:
    """The resource and operations of the requests to which a policy applies."""

    resource: Resource
    operations: tuple[Literal["CREATE", "UPDATE"], ...]
    subresource: str = ""

    def rule(self) -> Json:
        """The entry of `matchConstraints.resourceRules`."""
        plural = self.resource.plural
        return {
            "apiGroups": [self.resource.group],
            "apiVersions": [self.resource.version],
            "operations": list(self.operations),
            "resources": [f"{plural}/{self.subresource}" if self.subresource else plural],
        }


@dataclass(frozen=True, slots=True)
class Validation:
    """`rule`: the expression that is true for an accepted request. `message`: the expression of the refusal's text."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Validating:
    """A ValidatingAdmissionPolicy. `conditions`: the requests that it reads, by names of match conditions.

    `asks_authorizer`: a validation reads `authorizer`, which the API server does not offer to audit annotations. Each
    request of the break-glass group is audited then.
    """

    target: Target
    conditions: Mapping[str, str]
    validations: tuple[Validation, ...]
    action: Literal["Deny", "Warn"] = "Deny"
    asks_authorizer: bool = False

    def objects(self, name: str, settings: PolicySettings) -> list[Json]:
        """The policy and its binding."""
        spec = {
            **_match(self.target, {**NOT_DELETED, **self.conditions}),
            "variables": [{"name": "breaksGlass", "expression": _breaks_glass(settings)}],
            "validations": [
                {
                    "expression": f"{BREAKS_GLASS} || ({validation.rule})",
                    "messageExpression": validation.message,
                    "reason": "Forbidden",
                }
                for validation in self.validations
            ],
            "auditAnnotations": [{"key": "break-glass", "valueExpression": self._audit(settings)}],
        }
        policy = _object("v1", "ValidatingAdmissionPolicy", name, spec)
        return [policy, _binding(policy, settings, {"validationActions": [self.action]})]

    def _audit(self, settings: PolicySettings) -> str:
        """The text that the audit log gets for a request that only the exemption accepted; "" writes none."""
        rules = ["false"] if self.asks_authorizer else [f"({validation.rule})" for validation in self.validations]
        follows = " && ".join(rules)
        text = f'"allowed for " + {cel_texts.USER} + {cel_texts.text(f" as a member of {settings.break_glass_group}")}'
        return f'{BREAKS_GLASS} && !({follows}) ? {text} : ""'


@dataclass(frozen=True, slots=True)
class Mutating:
    """A MutatingAdmissionPolicy. `change`: the expression of the configuration that is applied to a matching object."""

    target: Target
    conditions: Mapping[str, str]
    change: str

    def objects(self, name: str, settings: PolicySettings) -> list[Json]:
        """The policy and its binding; none if the cluster does not serve the kind."""
        if not settings.mutating_version:
            return []
        change = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": self.change}}
        # IfNeeded: another policy or a webhook may add the queue label after this policy was evaluated.
        spec = {**_match(self.target, self.conditions), "reinvocationPolicy": "IfNeeded", "mutations": [change]}
        policy = _object(settings.mutating_version, "MutatingAdmissionPolicy", name, spec)
        return [policy, _binding(policy, settings, {})]


def _match(target: Target, conditions: Mapping[str, str]) -> Json:
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [target.rule()]},
        "matchConditions": [{"name": name, "expression": expression} for name, expression in conditions.items()],
    }


def _breaks_glass(settings: PolicySettings) -> str:
    group = settings.break_glass_group
    return f"{cel_texts.text(group)} in {cel_texts.GROUPS}" if group else "false"


def _object(version: str, kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _binding(policy: Json, settings: PolicySettings, more: Json) -> Json:
    name = policy["metadata"]["name"]
    spec = {"policyName": name, "matchResources": {"namespaceSelector": _selector(settings)}, **more}
    version = policy["apiVersion"].rpartition("/")[2]
    return _object(version, f"{policy['kind']}Binding", name, spec)


def _selector(settings: PolicySettings) -> Json:
    """The configured selector, narrowed to the installation's namespaces; never kube-system or its own."""
    excluded = list(dict.fromkeys(("kube-system", settings.namespace)))
    own = [{"key": NAMESPACE_NAME, "operator": "NotIn", "values": excluded}]
    if settings.namespaces:
        own.append({"key": NAMESPACE_NAME, "operator": "In", "values": list(settings.namespaces)})
    configured = settings.namespace_selector.get("matchExpressions") or []
    more = [requirement for requirement in configured if requirement not in own]
    return {**settings.namespace_selector, "matchExpressions": [*own, *more]}
