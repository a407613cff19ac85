"""The wheel, installed with its dependencies into an empty environment: its command works with no checkout in sight."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_manager.cli.arguments import parser
from queue_manager.cli.man_page import commands_of
from queue_manager.cli.version_line import COMMIT_DIGITS
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SAMPLE = Path(__file__).parent / "testing" / "sample_project"
COMMIT = "queue_manager/COMMIT"
PIP = ("-m", "pip", "--disable-pip-version-check")

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a virtual environment in which only the wheel was asked for."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = str(wheel_of(ROOT, folder).filename)
    python = str(folder / "env" / "bin" / "python")
    run(sys.executable, "-m", "venv", str(folder / "env"))
    run(python, *PIP, "install", "--quiet", "--constraint", str(ROOT / "deploy" / "constraints.txt"), wheel)
    run(python, *PIP, "check")
    return folder / "env"


@pytest.fixture
def env(environment: Path, tmp_path: Path) -> dict[str, str]:
    """The variables of a new user whose PATH has the environment's commands."""
    path = os.pathsep.join([str(environment / "bin"), "/usr/local/bin", "/usr/bin", "/bin"])
    return {"HOME": str(tmp_path), "PATH": path, "LANG": "C.UTF-8"}


def run(*command: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run(command, check=False, env=env, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def cluster(env: dict[str, str], tmp_path: Path) -> Iterator[list[str]]:
    """The lines that `sluice up` prints; it is stopped afterwards, by Ctrl-C."""
    process = subprocess.Popen(["sluice", "up"], env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if line.startswith("Ctrl-C"):
            break
    yield lines
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def head() -> str:
    """The commit of this checkout; "" if it is no repository."""
    return run("git", "-C", str(ROOT), "rev-parse", "HEAD").strip() if (ROOT / ".git").exists() else ""


def wheel_of(source: Path, folder: Path, env: dict[str, str] | None = None) -> zipfile.ZipFile:
    run(sys.executable, *PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source), env=env)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


def test_the_version_is_that_of_the_project_and_its_commit(env: dict[str, str], tmp_path: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    printed = run("sluice", "--version", env=env, cwd=tmp_path)
    of = f" (commit {head()[:COMMIT_DIGITS]})" if head() else ""
    assert printed.startswith(f"sluice {version}{of}, Python 3.")


def test_a_wheel_of_an_sdist_names_the_commit_of_the_sdist(tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", str(tmp_path / "env"))
    python = str(tmp_path / "env" / "bin" / "python")
    run(python, *PIP, "install", "--quiet", "hatchling")
    run(python, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path), cwd=ROOT)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with wheel_of(sdist, tmp_path) as wheel:
        assert (wheel.read(COMMIT).decode().strip() if COMMIT in wheel.namelist() else "") == head()


def test_a_wheel_is_built_without_git(tmp_path: Path) -> None:
    """git is in no folder of PATH, as on a machine that has none."""
    with wheel_of(ROOT, tmp_path, env={**os.environ, "PATH": str(Path(sys.executable).parent)}) as wheel:
        assert COMMIT not in wheel.namelist()
        assert "queue_manager/cli/main.py" in wheel.namelist()


def test_a_wheel_has_the_man_page_of_each_command(tmp_path: Path) -> None:
    with wheel_of(ROOT, tmp_path) as wheel:
        pages = {Path(name).name: name for name in wheel.namelist() if ".data/data/share/man/man1/" in name}
        assert pages.keys() == {"sluice.1", *(f"sluice-{command}.1" for command in commands_of(parser()))}
        assert wheel.read(pages["sluice-ps.1"]).startswith(b".TH SLUICE-PS 1 ")


async def test_the_commands_that_up_prints_run_a_job(cluster: list[str], env: dict[str, str], tmp_path: Path) -> None:
    assert any(line.startswith("Ready in ") for line in cluster), cluster
    submit, ps = (shlex.split(line) for line in cluster if line.startswith("sluice "))
    run(*submit, env=env, cwd=tmp_path)
    await until(lambda: "Succeeded" in run(*ps, env=env, cwd=tmp_path), "the sample has run")


@pytest.fixture(scope="module")
def pytest_environment(environment: Path) -> Path:
    """The environment with pytest, as in the tests of another project."""
    constraints = str(ROOT / "deploy" / "constraints.txt")
    run(str(environment / "bin" / "python"), *PIP, "install", "--quiet", "--constraint", constraints, "pytest")
    return environment


def test_a_project_tests_its_jobs_with_the_plugin(
    pytest_environment: Path, env: dict[str, str], tmp_path: Path
) -> None:
    project = shutil.copytree(SAMPLE, tmp_path / "project")
    assert "3 passed" in run("pytest", "-p", "no:cacheprovider", env=env, cwd=project)


def test_the_commands_of_the_readme_add_sluice_to_a_project(tmp_path: Path) -> None:
    """In an environment that has nothing but pytest, the test that the README shows passes afterwards."""
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "test_report.py").write_text(readme.partition("```python\n")[2].partition("```")[0])
    python = str(tmp_path / "env" / "bin" / "python")
    run(sys.executable, "-m", "venv", str(tmp_path / "env"))
    constraints = str(ROOT / "deploy" / "constraints.txt")
    env = {**os.environ, "PATH": f"{tmp_path}/env/bin:{os.environ['PATH']}", "PIP_CONSTRAINT": constraints}
    run(python, *PIP, "install", "--quiet", "pytest", env=env)
    commands = re.findall(r"`(pip [^`]*)`", readme)
    assert len(commands) == 3
    for command in commands:
        run("sh", "-c", command.replace("FOLDER", shlex.quote(str(ROOT))), env=env, cwd=tmp_path)
    assert "1 passed" in run("pytest", "-q", "-p", "no:cacheprovider", env=env, cwd=tmp_path)


def test_the_types_of_the_package_are_those_of_its_users(pytest_environment: Path, tmp_path: Path) -> None:
    """mypy, strict, on the project: it reads the types of an installed package only if that ships py.typed."""
    project = shutil.copytree(SAMPLE, tmp_path / "project")
    python = str(pytest_environment / "bin" / "python")
    mypy = (sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "--python-executable", python, ".")
    assert "no issues found" in run(*mypy, cwd=project)


def test_the_demo_ends_as_expected(env: dict[str, str], tmp_path: Path) -> None:
    assert "as expected" in run("sluice", "demo", env=env, cwd=tmp_path)
