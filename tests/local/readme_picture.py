"""Draws README.svg, the picture of the README: `python -m tests.local.readme_picture`.

It starts a cluster, submits the Jobs of two teams that share quota, waits until all have ended (about 90 seconds), and
draws what `sluice show -o json` reports: when each Job waited, ran, was preempted, backed off and ended.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import yaml

from tests.local.readme import README, Session, Step

PICTURE = README.with_name("README.svg")
TEAMS = {"team-a": "#3b82c4", "team-b": "#8458b3"}
COLOURS = {"waits": "#e3e6ea", "not ready": "#e0a13c", "stopped": "#cf222e"}
CPU = 4

CONFIG = """apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: 10s
  requeuingStrategy: {backoffBaseSeconds: 8, backoffLimitCount: 1}
"""


@dataclass(frozen=True)
class Submission:
    """A Job of the picture: submitted `at` seconds, running for `seconds`. None: it never becomes ready."""

    name: str
    team: str
    at: int
    cpu: int
    seconds: int | None
    priority: str = ""


SUBMISSIONS = (
    Submission("train-1", "team-a", 0, 1, 30),
    Submission("train-2", "team-a", 0, 1, 42),
    Submission("sweep-1", "team-a", 0, 1, 22),
    Submission("sweep-2", "team-a", 0, 1, 22),
    Submission("sweep-3", "team-a", 3, 1, 14),
    Submission("report", "team-b", 10, 2, 20),
    Submission("index", "team-b", 14, 1, 12),
    Submission("urgent", "team-a", 20, 1, 8, "urgent"),
    Submission("broken", "team-b", 24, 1, None),
)


@dataclass(frozen=True)
class Bar:
    """A part of a Job's life, in seconds since the first submission."""

    start: float
    end: float
    kind: str  # waits, runs, not ready


@dataclass(frozen=True)
class Lane:
    """A Job with its bars; `end` is its last state."""

    name: str
    team: str
    cpu: int
    bars: tuple[Bar, ...]
    end: str


# --- recording ---------------------------------------------------------------------------------------------


def queues() -> Iterator[dict[str, Any]]:
    """Two ClusterQueues of one cohort, which lend what they do not use and take it back when they need it."""
    version = "kueue.x-k8s.io/v1beta2"
    yield {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "shared"}}
    yield {"apiVersion": version, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    for team in TEAMS:
        quota = [{"name": "shared", "resources": [{"name": "cpu", "nominalQuota": CPU // len(TEAMS)}]}]
        spec = {
            "cohortName": "all",
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}],
        }
        yield {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": team}, "spec": spec}
        local = {"name": team, "namespace": "default"}
        yield {"apiVersion": version, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": team}}


def manifest(job: Submission) -> dict[str, Any]:
    """The Job as it is submitted."""
    labels = {"kueue.x-k8s.io/queue-name": job.team}
    labels |= {"kueue.x-k8s.io/priority-class": job.priority} if job.priority else {}
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", str(job.seconds or 60)],
        "resources": {"requests": {"cpu": job.cpu}},
    }
    if job.seconds is None:
        container["readinessProbe"] = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    meta = {"name": job.name, "labels": labels}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"suspend": True, "template": {"spec": pod}},
    }


def record() -> dict[str, Any]:
    """Play SUBMISSIONS on a new cluster; return the output of `sluice show -o json` of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = Session(folder)
        (folder / "config.yaml").write_text(CONFIG)
        (folder / "queues.yaml").write_text(yaml.safe_dump_all(queues()))
        try:
            session.run(Step(f"sluice up --cpu {CPU} --memory 8Gi --config {folder}/config.yaml", [], 0))
            session.run(Step("export KUBECONFIG=~/.sluice/kubeconfig", [], 0))
            session.run(Step(f"kubectl apply -f {folder}/queues.yaml", [], 0))
            began = time.monotonic()
            for job in SUBMISSIONS:
                time.sleep(max(0.0, began + job.at - time.monotonic()))  # the picture has these times
                (folder / "job.yaml").write_text(yaml.safe_dump(manifest(job)))
                session.run(Step(f"sluice submit -f {folder}/job.yaml", [], 0))
            return _when_all_have_ended(session)
        finally:
            session.close()


def _when_all_have_ended(session: Session) -> dict[str, Any]:
    while True:
        rows = json.loads("\n".join(session.run(Step("sluice ps -o json", [], 0))))
        if all(row["state"] in ("Succeeded", "Failed", "Deactivated") for row in rows):
            break
        time.sleep(1)  # each row is the state at one time
    shown = {row["name"]: session.run(Step(f"sluice show {row['name']} -o json", [], 0)) for row in rows}
    return {name: json.loads("\n".join(lines)) for name, lines in shown.items()}


# --- what the picture shows --------------------------------------------------------------------------------


def lanes(shown: dict[str, Any]) -> list[Lane]:
    """The life of each Job of SUBMISSIONS, in their order."""
    first = min(_time(view["created"]) for view in shown.values())
    return [_lane(job, shown[job.name], first) for job in sorted(SUBMISSIONS, key=lambda job: job.team)]


def _lane(job: Submission, view: dict[str, Any], first: datetime) -> Lane:
    bars, now = [], _since(view["created"], first)
    for attempt in view["retries"]["attempts"]:
        start, end = _since(attempt["admitted"], first), _since(attempt["ended"], first)
        kind = "not ready" if job.seconds is None else "runs"
        bars += [Bar(now, start, "waits"), Bar(start, end, kind)]
        now = end
    return Lane(job.name, job.team, job.cpu, tuple(bar for bar in bars if bar.end > bar.start), view["state"])


def _since(text: str, first: datetime) -> float:
    return (_time(text) - first).total_seconds()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def usage(found: Sequence[Lane], team: str, at: float) -> int:
    """The cpu that the running Jobs of a team have at this second."""
    return sum(
        lane.cpu
        for lane in found
        for bar in lane.bars
        if lane.team == team and bar.kind != "waits" and bar.start <= at < bar.end
    )


# --- drawing -----------------------------------------------------------------------------------------------

LEFT, TOP, ROW, HEIGHT, WIDTH = 96, 58, 22, 56, 820


def draw(found: Sequence[Lane]) -> str:
    """The picture as SVG."""
    last = max(bar.end for lane in found for bar in lane.bars)
    scale = (WIDTH - LEFT - 96) / last
    bottom = TOP + ROW * len(found) + 26
    total = bottom + HEIGHT + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" width="{WIDTH}" height="{total}" '
        'font-family="ui-sans-serif, Helvetica, Arial, sans-serif" font-size="12" fill="#24292f">',
        f'<rect width="{WIDTH}" height="{total}" rx="8" fill="#ffffff" stroke="#d0d7de"/>',
        f'<text x="16" y="24" font-size="13" font-weight="600">{len(found)} Jobs of two teams that share {CPU} cpu'
        "</text>",
        *_legend(),
    ]
    for number, lane in enumerate(found):
        parts += _row(lane, TOP + ROW * number, scale)
    parts += _stack(found, bottom, scale, int(last))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend() -> Iterator[str]:
    names = ((COLOURS["waits"], "waits"), *((colour, f"{team} runs") for team, colour in TEAMS.items()))
    x = 16.0
    for colour, name in (*names, (COLOURS["not ready"], "pods not ready")):
        yield f'<rect x="{x:g}" y="35" width="12" height="12" rx="2" fill="{colour}"/>'
        yield f'<text x="{x + 17:g}" y="45">{name}</text>'
        x += 34 + 6.5 * len(name)
    yield f'<rect x="{x + 8:g}" y="33" width="3" height="16" fill="{COLOURS["stopped"]}"/>'
    yield f'<text x="{x + 17:g}" y="45">stopped by Sluice</text>'


def _row(lane: Lane, y: int, scale: float) -> Iterator[str]:
    yield f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(lane.name)}</text>'
    for bar in lane.bars:
        colour = TEAMS[lane.team] if bar.kind == "runs" else COLOURS[bar.kind]
        x, width = LEFT + bar.start * scale, (bar.end - bar.start) * scale
        yield f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="13" rx="2" fill="{colour}"/>'
    tries = [bar for bar in lane.bars if bar.kind != "waits"]
    stopped = tries if lane.end == "Deactivated" else tries[:-1]
    for bar in stopped:
        yield f'<rect x="{LEFT + bar.end * scale - 3:.1f}" y="{y}" width="3" height="19" fill="{COLOURS["stopped"]}"/>'
    end = {"Deactivated": "gave up", "Succeeded": f"{lane.cpu} cpu ✓"}[lane.end]
    yield f'<text x="{LEFT + tries[-1].end * scale + 9:.1f}" y="{y + 13}" fill="#57606a">{end}</text>'


def _stack(found: Sequence[Lane], y: int, scale: float, last: int) -> Iterator[str]:
    """The cpu in use, team upon team, below the line of the quota; then the time axis."""
    unit, floor = HEIGHT / CPU, y + HEIGHT
    yield f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{CPU} cpu</text>'
    for start, end, used in _steady(found, last):
        top = float(floor)
        for team, colour in TEAMS.items():
            top -= used[team] * unit
            if used[team]:
                box = f'x="{LEFT + start * scale:.1f}" y="{top:g}" width="{(end - start) * scale:.1f}"'
                yield f'<rect {box} height="{used[team] * unit:g}" fill="{colour}" fill-opacity="0.75"/>'
    line = f'x1="{LEFT}" x2="{LEFT + last * scale:.1f}"'
    yield f'<line {line} y1="{y}" y2="{y}" stroke="#24292f" stroke-dasharray="3 3"/>'
    yield f'<line {line} y1="{floor}" y2="{floor}" stroke="#57606a"/>'
    for second in range(0, last + 1, 10):
        yield (
            f'<text x="{LEFT + second * scale:.1f}" y="{floor + 16}" text-anchor="middle" fill="#57606a">{second} s'
            "</text>"
        )


def _steady(found: Sequence[Lane], last: int) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Spans of seconds in which the cpu of each team stays the same."""
    start, used = 0, {team: usage(found, team, 0) for team in TEAMS}
    for second in range(1, last + 1):
        now = {team: usage(found, team, second) for team in TEAMS}
        if now != used or second == last:
            yield start, second, used
            start, used = second, now


if __name__ == "__main__":
    PICTURE.write_text(draw(lanes(record())), encoding="utf-8")
