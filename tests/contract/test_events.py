"""Events: the core group and events.k8s.io serve the same objects."""

from __future__ import annotations

from typing import Any

from queue_manager.api.api_resources import EVENTS, Resource
from tests.contract.session import Session

Json = Any
NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event")


def event(s: Session, **more: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Job", "namespace": s.namespace, "name": "j", "apiVersion": "batch/v1"},
        "reason": "Suspended",
        "message": "Job suspended",
        "type": "Normal",
        "source": {"component": "job-controller"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    } | more


def new_event(s: Session, **more: Json) -> Json:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "n"},
        "regarding": {"kind": "Job", "namespace": s.namespace, "name": "j"},
        "reason": "Created",
        "note": "pod created",
        "type": "Normal",
        "action": "Create",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/controller",
        "reportingInstance": "one",
    } | more


async def test_an_event_created_in_the_core_group_is_served_by_both(s: Session) -> None:
    await s.create(event(s))
    await s.get(EVENTS, "e")
    await s.get(NEW_EVENTS, "e")
    await s.patch(EVENTS, "e", {"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"})


async def test_an_event_created_in_the_new_group_is_served_by_both(s: Session) -> None:
    await s.ask("POST", s.path(NEW_EVENTS), new_event(s))
    await s.get(EVENTS, "n")
    await s.get(NEW_EVENTS, "n")


async def test_events_are_validated(s: Session) -> None:
    await s.create(event(s, involvedObject={"kind": "Job", "namespace": "elsewhere", "name": "j"}))
    await s.create(event(s, type="Strange"))
    await s.ask("POST", s.path(NEW_EVENTS), new_event(s, type="Strange"))
    await s.ask("POST", s.path(NEW_EVENTS), new_event(s, eventTime=None))
    await s.ask("POST", s.path(NEW_EVENTS), new_event(s, reportingController=""))
    await s.ask("POST", s.path(NEW_EVENTS), new_event(s, note="x" * 1025))


async def test_events_are_selected_by_fields_of_the_involved_object(s: Session) -> None:
    await s.create(event(s), silent=True)
    await s.list(EVENTS, fieldSelector="involvedObject.name=j,reason=Suspended,type=Normal")
    await s.list(EVENTS, fieldSelector="involvedObject.kind=Pod")
    await s.list(NEW_EVENTS, fieldSelector="regarding.name=j")
    await s.list(EVENTS, fieldSelector="spec.x=1")
