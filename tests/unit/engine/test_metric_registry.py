"""The registry of metrics: exposition formats, declared names and labels, callbacks before a scrape."""

from __future__ import annotations

import threading

import pytest
from prometheus_client import generate_latest

from queue_manager.api.metric_families import Family
from queue_manager.engine.metric_registry import MetricRegistry

ADMITTED = Family("kueue_admitted_total", "counter", ("queue",), "How many\nwere admitted.")


def test_the_exposition_is_in_the_format_of_prometheus() -> None:
    registry = MetricRegistry(
        [
            ADMITTED,
            Family("kueue_pending", "gauge", (), "Pending."),
            Family("kueue_wait_seconds", "histogram", ("queue",), "Waiting.", (1, 5)),
        ]
    )
    registry.inc("kueue_admitted_total", {"queue": 'a"b'}, 2)
    registry.set("kueue_pending", {}, 0.5)
    for seconds in (0.5, 1, 3, 9):
        registry.observe("kueue_wait_seconds", {"queue": "q"}, seconds)
    assert registry.exposition() == (
        "# HELP kueue_admitted_total How many\\nwere admitted.\n"
        "# TYPE kueue_admitted_total counter\n"
        'kueue_admitted_total{queue="a\\"b"} 2.0\n'
        "# HELP kueue_pending Pending.\n"
        "# TYPE kueue_pending gauge\n"
        "kueue_pending 0.5\n"
        "# HELP kueue_wait_seconds Waiting.\n"
        "# TYPE kueue_wait_seconds histogram\n"
        'kueue_wait_seconds_bucket{le="1.0",queue="q"} 2.0\n'
        'kueue_wait_seconds_bucket{le="5.0",queue="q"} 3.0\n'
        'kueue_wait_seconds_bucket{le="+Inf",queue="q"} 4.0\n'
        'kueue_wait_seconds_count{queue="q"} 4.0\n'
        'kueue_wait_seconds_sum{queue="q"} 13.5\n'
    )
    assert (registry.value("kueue_wait_seconds", {"queue": "q"}), registry.value("kueue_pending", {})) == (4, 0.5)


async def test_a_scraper_that_asks_for_openmetrics_gets_it() -> None:
    registry = MetricRegistry([ADMITTED])
    registry.inc("kueue_admitted_total", {"queue": "q"})
    found = await registry.expose("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
    assert found.content_type.startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert found.body.decode() == (
        "# HELP kueue_admitted How many\\nwere admitted.\n"
        "# TYPE kueue_admitted counter\n"
        'kueue_admitted_total{queue="q"} 1.0\n'
        "# EOF\n"
    )


async def test_a_scrape_is_encoded_in_a_thread_and_measured_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry, threads = MetricRegistry([ADMITTED]), []
    registry.before_exposition(lambda: threads.append(threading.current_thread()))

    def encode(collector: MetricRegistry) -> bytes:
        threads.append(threading.current_thread())
        return generate_latest(collector)

    monkeypatch.setattr("queue_manager.engine.metric_registry.choose_encoder", lambda accept: (encode, "text/plain"))
    registry.inc("kueue_admitted_total", {"queue": "q"})
    assert b'kueue_admitted_total{queue="q"} 1.0\n' in (await registry.expose()).body
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


def test_a_common_label_has_its_current_value_in_all_series() -> None:
    families = [Family("kueue_pending", "gauge", ("queue", "role"), "P."), Family("other", "gauge", (), "O.")]
    registry = MetricRegistry(families)
    registry.set("other", {}, 1)
    for queue in ("a", "b"):
        registry.set("kueue_pending", {"queue": queue}, 1)
    for role in ("follower", "leader"):
        registry.add_label("kueue_", "role", role)
    assert [line for line in registry.exposition().splitlines() if not line.startswith("#")] == [
        'kueue_pending{queue="a",role="leader"} 1.0',
        'kueue_pending{queue="b",role="leader"} 1.0',
        "other 1.0",
    ]


async def test_metrics_of_another_registry_are_served_with_these() -> None:
    registry, other = MetricRegistry([ADMITTED]), MetricRegistry([Family("reviews_total", "counter", (), "R.")])
    registry.include(other)
    registry.inc("kueue_admitted_total", {"queue": "q"})
    other.inc("reviews_total", {})
    body = (await registry.expose("application/openmetrics-text;version=1.0.0")).body.decode()
    assert 'kueue_admitted_total{queue="q"} 1.0\n' in body
    assert body.endswith("reviews_total 1.0\n# EOF\n")


def test_a_metric_has_one_kind_and_a_counter_does_not_go_down() -> None:
    registry = MetricRegistry([Family("a_total", "counter", (), "")])
    registry.inc("a_total", {})
    with pytest.raises(ValueError, match="is a counter"):
        registry.set("a_total", {}, 1)
    with pytest.raises(ValueError, match="non-negative"):
        registry.inc("a_total", {}, -1)


def test_a_name_that_is_not_declared_is_refused() -> None:
    """So each metric has a HELP text."""
    with pytest.raises(ValueError, match="metric b is not declared"):
        MetricRegistry([Family("a", "counter", (), "")]).inc("b", {})


@pytest.mark.parametrize("labels", [{}, {"queue": "q", "more": ""}, {"other": "q"}])
def test_undeclared_and_missing_labels_are_refused(labels: dict[str, str]) -> None:
    registry = MetricRegistry([ADMITTED])
    registry.inc("kueue_admitted_total", {"queue": "q"})
    with pytest.raises(ValueError, match="has the labels"):
        registry.inc("kueue_admitted_total", labels)


def test_removed_series_are_not_shown_and_callbacks_run_first() -> None:
    registry = MetricRegistry([Family("old", "gauge", ("a",), "Old."), Family("fresh", "gauge", (), "Fresh.")])
    registry.set("old", {"a": "b"}, 1)
    registry.remove("old", {"a": "b"})
    registry.before_exposition(lambda: registry.set("fresh", {}, 3))
    assert registry.exposition() == (
        "# HELP fresh Fresh.\n# TYPE fresh gauge\nfresh 3.0\n# HELP old Old.\n# TYPE old gauge\n"
    )
