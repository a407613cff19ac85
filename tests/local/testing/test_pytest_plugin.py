"""The plugin of pytest, used by a project of its own, and by one that does not use it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).parent / "sample_project"
URL = """\
from pathlib import Path

def test_url(sluice_cluster, worker_id):
    Path(worker_id).write_text(sluice_cluster.url)
"""
LOADED = """\
import sys, pytest
pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider"])
print("loaded", *sorted(name for name in sys.modules if name.partition(".")[0] in {"queue_manager", "job_controller"}))
print("heavy", *sorted({"aiohttp", "kubernetes", "msgspec", "pydantic"} & set(sys.modules)))
"""


def pytest_in(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_project_tests_its_jobs_with_the_fixtures(tmp_path: Path) -> None:
    project = shutil.copytree(SAMPLE, tmp_path / "project")
    assert re.search(r"\b3 passed\b", pytest_in(project))


def test_workers_of_xdist_have_a_cluster_each(tmp_path: Path) -> None:
    project = shutil.copytree(SAMPLE, tmp_path / "project")
    (project / "test_url.py").write_text(URL)
    pytest_in(project, "-n", "2", "--dist", "each", "test_url.py")
    assert len({(project / f"gw{number}").read_text() for number in range(2)}) == 2


def test_a_project_that_refuses_warnings_runs_beside_pytest_asyncio(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_options.py").write_text("def test_options(sluice_options): assert sluice_options == {}\n")
    assert "plugins: asyncio-" in pytest_in(tmp_path)


def test_warnings_of_the_project_itself_are_reported(tmp_path: Path) -> None:
    warning = "warnings.warn(pytest.PytestDeprecationWarning('The configuration option x is unset'))"
    (tmp_path / "test_old.py").write_text(f"import pytest, warnings\ndef test_old(): {warning}\n")
    assert "The configuration option x is unset" in pytest_in(tmp_path)


def test_a_project_that_uses_no_fixture_loads_the_plugin_alone(tmp_path: Path) -> None:
    """So that collecting its tests takes no longer than without Sluice."""
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "loaded queue_manager queue_manager.pytest_plugin" in lines, done.stdout
    assert "heavy" in lines
