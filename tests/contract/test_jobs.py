"""All recorded requests about Jobs are answered over HTTP as recorded, by both servers."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from queue_manager.api.api_resources import JOBS
from tests.contract.bodies import job
from tests.contract.normal import UUID
from tests.contract.session import Answer, Session
from tests.golden_cases import TIME, UID, Case, cases, same_text
from tests.golden_cases import defaults as default_cases

EMPTY_MAPS = {"u-tpl-labels-removed-suspended"}  # empty-map in queue_manager/local/DIFFERENCES.md
RECORDED_NAMESPACE = '"v"'


def sent(body: Any, namespace: str) -> bytes:
    """A recorded body as bytes, in the namespace of the test."""
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return text.replace(f'"namespace":{RECORDED_NAMESPACE}', f'"namespace":"{namespace}"').encode()


def as_recorded(answer: Answer, namespace: str, body: str = "") -> Any:
    """An answer with the names, uids and times of the recording."""
    text = json.dumps(answer.body).replace(namespace, "v")
    if answer.status == 201:
        text = text.replace(answer.meta["creationTimestamp"], TIME)
    text = UUID.sub(lambda found: found[0] if found[0] in body else UID, text)
    tree = json.loads(text)
    for name in ("resourceVersion", "managedFields"):
        tree["metadata"].pop(name, None)
    return tree


async def ask(s: Session, case: Case) -> Answer:
    query = dict([case.query.split("=", 1)]) if case.query else {}
    body = sent(case.body, s.namespace)
    if case.name == "resourceVersion-in-create":  # the recorder's client removed it
        body = sent(case.body | {"metadata": {"name": "job"}}, s.namespace)
    if case.operation == "create":
        return await s.ask("POST", s.path(JOBS), body, query=query, silent=True)
    before = copy.deepcopy(case.before)
    before["metadata"]["namespace"] = s.namespace
    await s.server.put_in_storage(JOBS, before)
    subresource = "status" if case.operation == "status" else ""
    return await s.ask("PUT", s.path(JOBS, before["metadata"]["name"], subresource), body, query=query, silent=True)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
async def test_recorded_request(s: Session, case: Case) -> None:
    """Code, reason, message, causes, warnings and the stored object equal the recording."""
    answer = await ask(s, case)
    tree = as_recorded(answer, s.namespace, json.dumps(case.body))
    assert answer.status == case.code, tree
    assert answer.warnings == case.warnings
    if case.accepted:
        assert tree == case.result
        return
    assert tree["reason"] == case.reason
    if case.name in EMPTY_MAPS and s.server.name == "embedded":
        assert tree["message"] == (case.message or "").replace("Invalid value: {}", "Invalid value: null")
        return
    assert same_text(tree["message"], case.message or ""), tree["message"]
    causes = (tree.get("details") or {}).get("causes") or []
    assert [(c["reason"], c["field"]) for c in causes] == [(c["reason"], c["field"]) for c in case.causes]
    for ours, recorded in zip(causes, case.causes, strict=True):
        assert same_text(ours["message"], recorded["message"])


@pytest.mark.parametrize(("manifest", "stored"), [c[1:] for c in default_cases()], ids=[c[0] for c in default_cases()])
async def test_defaults(s: Session, manifest: Any, stored: Any) -> None:
    """A manifest is stored with the recorded defaults."""
    answer = await s.ask("POST", s.path(JOBS), sent(manifest, s.namespace), silent=True)
    assert answer.status == 201, answer.body
    assert as_recorded(answer, s.namespace) == stored


def handling(**codes: Any) -> Any:
    """A podFailurePolicy with one rule about exit codes."""
    return {"podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": codes}]}}


MANY_INDEXES = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 1, "backoffLimitPerIndex": 1}
REFUSED = {
    "many-indexes-without-max-failed": MANY_INDEXES,
    "exit-codes-empty": handling(operator="In", values=[]),
    "exit-codes-absent": handling(operator="In"),
    "exit-codes-null": handling(operator="In", values=None),
}


@pytest.mark.parametrize("spec", REFUSED.values(), ids=REFUSED)
async def test_refused_spec(s: Session, spec: Any) -> None:
    """A refusal has the words of the real server; an empty list and null are printed as they were sent."""
    await s.create(job("j", spec))


@pytest.mark.parametrize("values", [[], None], ids=["empty", "null"])
async def test_exit_codes_removed_by_an_update(s: Session, values: Any) -> None:
    """Both refusals, of the rule without exit codes and of changing an immutable field, print the list as sent."""
    await s.create(job("j", handling(operator="In", values=[1])), silent=True)
    await s.replace(job("j", handling(operator="In", values=values)))
