"""LIST: order, pages, resource versions, selectors."""

from __future__ import annotations

import base64
import json

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS, Resource
from tests.contract.bodies import config_map, definition, job, pod, thing, things
from tests.contract.session import Session


async def five(s: Session) -> str:
    """Create a to e, a and b of team x; returns the version of the last one."""
    for name in "abcde":
        made = await s.create(config_map(name, None, labels={"team": "x" if name < "c" else "y"}), silent=True)
    return made.version


async def test_an_empty_list_is_a_list(s: Session) -> None:
    await s.list(CONFIG_MAPS)
    await s.list(JOBS)


async def test_items_are_sorted_by_name_and_have_no_kind(s: Session) -> None:
    for name in ("b", "a.b", "a", "a-b"):
        await s.create(config_map(name), silent=True)
    await s.list(CONFIG_MAPS)
    await s.create(job())
    await s.list(JOBS)


async def test_a_continue_token_returns_the_next_page(s: Session) -> None:
    await five(s)
    page = await s.list(CONFIG_MAPS, limit=2)
    while page.meta.get("continue"):
        page = await s.list(CONFIG_MAPS, limit=2, query={"continue": page.meta["continue"]})


async def test_all_pages_show_the_state_at_the_first_one(s: Session) -> None:
    await five(s)
    page = await s.list(CONFIG_MAPS, limit=2)
    await s.delete(CONFIG_MAPS, "c", silent=True)
    await s.create(config_map("f"), silent=True)
    await s.list(CONFIG_MAPS, query={"continue": page.meta["continue"]})


async def test_pages_with_a_selector_have_no_remaining_item_count(s: Session) -> None:
    await five(s)
    page = await s.list(CONFIG_MAPS, limit=1, labelSelector="team=y")
    page = await s.list(CONFIG_MAPS, limit=1, labelSelector="team=y", query={"continue": page.meta["continue"]})
    await s.list(CONFIG_MAPS, limit=5, labelSelector="team=y", query={"continue": page.meta["continue"]})


async def test_an_invalid_continue_token_is_refused(s: Session) -> None:
    await s.list(CONFIG_MAPS, query={"continue": "x"})
    await s.list(CONFIG_MAPS, query={"continue": "!!"})


async def test_a_continue_token_with_a_resource_version_is_refused(s: Session) -> None:
    await five(s)
    page = await s.list(CONFIG_MAPS, limit=2)
    await s.list(CONFIG_MAPS, limit=2, resourceVersion=page.version, query={"continue": page.meta["continue"]})
    await s.list(CONFIG_MAPS, limit=2, resourceVersionMatch="Exact", query={"continue": page.meta["continue"]})


async def test_an_expired_continue_token_is_answered_with_an_inconsistent_one(s: Session) -> None:
    kind = await three_things(s)
    page = await s.list(kind, limit=1)
    await s.server.compact(kind)
    expired = await s.list(kind, limit=1, query={"continue": of_version_one(page.meta["continue"])})
    await s.list(kind, limit=1, query={"continue": expired.meta["continue"]})


async def test_an_exact_version_that_was_compacted_is_410(s: Session) -> None:
    kind = await three_things(s)
    await s.server.compact(kind)
    await s.list(kind, resourceVersion="1", resourceVersionMatch="Exact")
    await s.list(kind, resourceVersion="1", limit=2)


async def three_things(s: Session) -> Resource:
    """Objects of a kind that did not exist at version 1, so that no server has it in memory at that version."""
    await s.define(definition(s.group, {"type": "object"}))
    for name in "abc":
        await s.create(thing(s.group, name), silent=True)
    return things(s.group)


def of_version_one(token: str) -> str:
    """The same page of a list at version 1. A server may keep a recent list in memory after a compaction."""
    tree = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return base64.urlsafe_b64encode(json.dumps(tree | {"rv": 1}).encode()).decode().rstrip("=")


async def test_an_exact_version_returns_the_state_at_that_version(s: Session) -> None:
    version = await five(s)
    await s.delete(CONFIG_MAPS, "a", silent=True)
    await s.replace(config_map("b", {"k": "new"}), silent=True)
    await s.list(CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact")
    await s.list(CONFIG_MAPS, resourceVersion=version, limit=2)


async def test_not_older_than_returns_the_current_state(s: Session) -> None:
    version = await five(s)
    await s.list(CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="NotOlderThan")
    await s.list(CONFIG_MAPS, resourceVersion=version)


async def test_a_version_from_the_future_is_refused_after_a_timeout(s: Session) -> None:
    await s.list(CONFIG_MAPS, resourceVersion="999999999")
    await s.list(CONFIG_MAPS, resourceVersion="999999999", resourceVersionMatch="Exact")
    await s.get(CONFIG_MAPS, "a", resourceVersion="999999999")


@pytest.mark.parametrize(
    "options",
    [
        {"resourceVersion": "x"},
        {"resourceVersion": "-1"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": "1", "resourceVersionMatch": "Sometimes"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"sendInitialEvents": "true"},
        {"limit": "x"},
        {"limit": "-1"},
        {"timeoutSeconds": "x"},
        {"watch": "true", "resourceVersion": "x"},
        {"watch": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
        {"watch": "true", "sendInitialEvents": "true"},
        {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"watch": "true", "fieldSelector": "spec.x=1"},
        {"watch": "true", "labelSelector": "a in"},
    ],
    ids=lambda options: ",".join(f"{name}={value}" for name, value in options.items()),
)
async def test_options(s: Session, options: dict[str, str]) -> None:
    """Invalid options of a list or watch are refused."""
    await s.list(CONFIG_MAPS, query=options)


SELECTORS = [
    "a=1",
    "a==1",
    "a!=1",
    "a",
    "!a",
    "a in (1,2)",
    "a notin (1,2)",
    "a in (1),b=2",
    "a,!b",
    "n>4",
    "n<5",
    " a = 1 , b = 2 ",
    "a in ()",
    "",
    "a=",
    "example.com/x=y",
    "a in (1",
    "a=1,",
    "a=1=2",
    "=1",
    "a b",
    "-a=1",
    "a=-",
    "n>x",
    "a in 1",
    "a!1",
    "!",
    "a,,b",
    "a=b c",
    "(a)",
]


@pytest.mark.parametrize("selector", SELECTORS)
async def test_label_selectors(s: Session, selector: str) -> None:
    """Both servers select the same objects or refuse with the same words."""
    sets = {"one": {"a": "1"}, "two": {"a": "2", "b": "2"}, "n": {"n": "5"}, "x": {"example.com/x": "y"}, "none": {}}
    for name, labels in sets.items():
        await s.create(config_map(name, {}, labels=labels), silent=True)
    await s.list(CONFIG_MAPS, labelSelector=selector)


@pytest.mark.parametrize(
    "selector",
    [
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.name==a,status.phase=Pending",
        "status.phase=Running",
        "spec.nodeName=",
        "spec.nodeName!=",
        "spec.restartPolicy=Always",
        "spec.foo=1",
        "metadata.labels=x",
        "metadata.name",
        "metadata.name>a",
        "metadata.name=a,",
        "metadata.name in (a)",
        "=a",
        "metadata.name=a\\,b",
        "metadata.name=a\\",
    ],
)
async def test_field_selectors(s: Session, selector: str) -> None:
    """Fields that the kind declares can be selected by; others are refused."""
    for name in "ab":
        await s.create(pod(name), silent=True)
    await s.list(PODS, fieldSelector=selector)


async def test_jobs_are_selected_by_status_successful(s: Session) -> None:
    await s.create(job(), silent=True)
    await s.list(JOBS, fieldSelector="status.successful=0")
    await s.list(JOBS, fieldSelector="status.successful!=0")
    await s.list(JOBS, fieldSelector="spec.suspend=true")


async def test_namespaces_are_selected_by_name_and_phase(s: Session) -> None:
    await s.ask("GET", NAMESPACES.path(), fieldSelector=f"metadata.name={s.namespace},status.phase=Active")
    await s.ask("GET", NAMESPACES.path(), labelSelector=f"kubernetes.io/metadata.name={s.namespace}")


async def test_a_label_selector_over_all_namespaces(s: Session) -> None:
    await s.create(config_map("a", None, labels={"of": s.namespace}), silent=True)
    await s.ask("GET", CONFIG_MAPS.path(), labelSelector=f"of={s.namespace}")
    await s.ask("GET", CONFIG_MAPS.path(), fieldSelector=f"metadata.namespace={s.namespace},metadata.name=a")
