"""Settings of all suites. A test that needs kubectl or a control plane is skipped where these are missing; under CI a
skip is a failure.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal

import pytest
from hypothesis import HealthCheck, settings

from queue_manager.engine.process_tuning import tune_garbage_collector
from queue_manager.local.agent import cgroups
from tests.control_plane import provide
from tests.control_plane.fixtures import control_plane, controllers
from tests.control_plane.image.oci_layout import LAYOUT
from tests.examples import FEWEST, QUICK

__all__ = ["control_plane", "controllers"]  # one real server for all suites

# No deadlines, since the machine may be busy; under CI the same commit is tested with the same examples.
settings.register_profile(
    "sluice",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("sluice")
settings.register_profile(QUICK, settings.get_profile("sluice"), max_examples=FEWEST)

NEEDS = {
    "kubectl": lambda: "" if kubectl() else "kubectl is not on PATH (install it, or run: make control-plane)",
    "control_plane": lambda: (
        f"{', '.join(provide.missing())} not found (run: make control-plane)" if provide.missing() else ""
    ),
    "image": lambda: "" if LAYOUT.is_dir() else "there is no build/image (run as root: make image test-image)",
}


# Where commands and clusters run as processes, as users run them: 2 % of the tests, half of their time.
END_TO_END = (
    "tests/local/cli/",
    "tests/local/client/",
    "tests/local/cluster/",
    "tests/local/kubectl/",
    "tests/local/test_readme.py",
    "tests/local/testing/",
)

# Where the tests that take longest are, longest first. They begin first, so that no worker ends long after the others.
LONGEST = (
    "tests/control_plane/jobs/",
    "tests/control_plane/",
    "tests/contract/test_property.py",
    "tests/local/cli/",
    "tests/local/cluster/",
    "tests/local/test_readme.py",
    "tests/local/agent/",
    "tests/simulation/",
    "tests/local/queue/",
    "tests/unit/job_controller/crashes/",
    "tests/unit/lifecycle/",
)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers per processor, because tests wait for processes and servers more than they compute; three with the
    real server, since they wait more for it, and for time to pass.

    One with `-n logical`, for the unit tests, which hardly wait.
    """
    waiting = 3 if config.option.markexpr.startswith("control_plane") else 2
    return (os.cpu_count() or 1) * (1 if config.option.numprocesses == "logical" else waiting)


def kubectl() -> str | None:
    """The kubectl to test with: the one on PATH, else the one that `make control-plane` built."""
    found = provide.find("kubectl")
    return shutil.which("kubectl") or (str(found) if found else None)


def leave_out_cgroups(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of real cgroups where none is delegated to this process: few machines can run them."""
    affected = [item for item in items if item.get_closest_marker("delegated_cgroup")]
    if affected and cgroups.delegated() is None:
        items[:] = [item for item in items if item not in affected]
        config.hook.pytest_deselected(items=affected)


def start_rank(item: pytest.Item) -> int:
    """The position of the test's folder in LONGEST; all others come after these."""
    return next((place for place, path in enumerate(LONGEST) if item.nodeid.startswith(path)), len(LONGEST))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out_cgroups(config, items)
    items.sort(key=start_rank)
    reasons = {name: missing() for name, missing in NEEDS.items()}
    for item in items:
        if item.nodeid.startswith(END_TO_END):
            item.add_marker(pytest.mark.end_to_end)
        for name, reason in reasons.items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Keep the modules and the thousands of tests out of every later search for cycles, a fifth of the whole time."""
    gc.collect()
    gc.freeze()
    tune_garbage_collector()


def pytest_configure() -> None:
    """Set what the programs under test inherit: API servers and etcd collect garbage less often, which takes 7 % less
    processor time. A shell starts what runs in its background with SIGINT ignored; Ctrl-C reaches them nevertheless.
    """
    os.environ.setdefault("GOGC", "400")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("under CI nothing may be skipped", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
