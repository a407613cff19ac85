"""kueue_build_info: the version that runs, with the labels of Kueue."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version

from queue_manager.engine.metric_registry import MetricRegistry

BUILD_INFO = "kueue_build_info"
DISTRIBUTION = "sluice"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}  # under their names in Go and in container images


def set_build_info(metrics: MetricRegistry) -> None:
    """Set the gauge. Labels that only a build of Go has are empty, which Prometheus treats as absent."""
    machine = platform.machine()
    own = {
        "git_version": f"v{version(DISTRIBUTION)}",
        "git_commit": "",
        "build_date": "",
        "go_version": "",
        "compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{sys.platform}/{MACHINES.get(machine, machine)}",
    }
    metrics.set(BUILD_INFO, own, 1)
