"""The audit log of the real server: what each service account did, and with which rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

# Blocking: a request is in the log before its response is sent. A watch is there from its start on.
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
"""
USER = "system:serviceaccount:"
LIMITED = "limited-"  # how the names of accounts begin that have fewer rights than they use


@dataclass(frozen=True, slots=True)
class Act:
    """A request of a service account: `account` is NAMESPACE:NAME, `resource` has its subresource, `code` is HTTP's."""

    account: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int
    is_allowed: bool  # by RBAC; admission may refuse it (403) all the same
    time: datetime

    @property
    def right(self) -> tuple[str, str, str]:
        """Group, resource and verb, as in a rule of RBAC."""
        return self.group, self.resource, self.verb


def flags(folder: Path) -> tuple[str, ...]:
    """Write the policy; returns the flags of kube-apiserver that log to `log_of(folder)`."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(POLICY)
    return (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log_of(folder)}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=0",
    )


def log_of(folder: Path) -> Path:
    return folder / "audit.log"


def events(log: Path) -> Iterator[dict[str, Any]]:
    """The events of a log. A last line that is being written is left out."""
    for line in log.read_text().splitlines(keepends=True) if log.exists() else ():
        if line.endswith("\n"):
            yield json.loads(line)


def acts(log: Path) -> Iterator[Act]:
    """The acts in a log."""
    return map(_act, events(log))


def _act(event: dict[str, Any]) -> Act:
    target = event.get("objectRef", {})
    resource = "/".join(part for part in (target.get("resource", ""), target.get("subresource", "")) if part)
    return Act(
        account=event["user"]["username"].removeprefix(USER),
        verb=event["verb"],
        group=target.get("apiGroup", ""),
        resource=resource,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        is_allowed=event.get("annotations", {}).get("authorization.k8s.io/decision") != "forbid",
        time=datetime.fromisoformat(event["requestReceivedTimestamp"]),
    )
