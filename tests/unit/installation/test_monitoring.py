"""Alerts and dashboard ask for metrics that are served, and each alert leads to its section of the runbook."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from queue_manager.api.metric_families import FAMILIES
from queue_manager.installation.alerts import ALERTS, runbook
from queue_manager.installation.dashboard import PANELS, Panel, dashboard
from queue_manager.installation.generated_files import files

BY_NAME = {family.name: family for family in FAMILIES}
OURS = re.compile(r"\b(?:kueue|sluice|workqueue|reflector|events|leader|job_controller|controller_runtime)_[a-z_]+")
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
QUERIES = [(panel.title, expression) for panel in PANELS for expression, _ in panel.queries]
QUERIES += [(alert.name, alert.expression) for alert in ALERTS]
ADDED_BY_PROMETHEUS = {"le", "pod", "instance"}


def metrics_of(expression: str) -> list[str]:
    return [name.removesuffix("_bucket") for name in OURS.findall(GROUPING.sub("", expression))]


@pytest.mark.parametrize(("title", "expression"), QUERIES)
def test_a_query_names_metrics_and_labels_that_are_served(title: str, expression: str) -> None:
    names = metrics_of(expression)
    assert names
    assert set(names) <= set(BY_NAME)
    labels = {label for name in names for label in BY_NAME[name].labels} | ADDED_BY_PROMETHEUS
    grouped = {label.strip() for labels_ in GROUPING.findall(expression) for label in labels_.split(",")}
    assert grouped <= labels
    assert set(re.findall(r"([a-z_]+)(?:=~|!=|=\")", expression)) <= labels


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_legend_names_labels_of_its_query(panel: Panel) -> None:
    for expression, legend in panel.queries:
        labels = {label for name in metrics_of(expression) for label in BY_NAME[name].labels} | ADDED_BY_PROMETHEUS
        assert set(re.findall(r"{{([a-z_]+)}}", legend)) <= labels


def test_an_alert_has_a_section_in_the_runbook_and_leads_to_it() -> None:
    rules = yaml.safe_load(files()["monitoring/rules.yaml"])["groups"][0]["rules"]
    links = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules}
    assert links == {alert.name: f"RUNBOOK.md#{alert.name.lower()}" for alert in ALERTS}
    sections = {line.removeprefix("## ") for line in runbook().splitlines() if line.startswith("## ")}
    assert links.keys() <= sections


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(dashboard())["panels"]:
        place = panel["gridPos"]
        own = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + 8)}
        assert place["x"] + place["w"] <= 24
        assert not own & taken
        taken |= own
