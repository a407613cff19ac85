"""`make setup` with an existing .venv: a broken one is set up again, one that it has not made is left alone.

`make demo` installs the product alone; targets that need development tools add them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")  # variables that an outer `make test` passes on

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with spaces in its path, and a .venv in which nothing is installed."""
    folder = tmp_path / "my code"
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / "deploy").mkdir()
    for name in ("Makefile", "pyproject.toml", "deploy/constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def script(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "PYTHON=true", *arguments]
    own = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    return subprocess.run(command, cwd=checkout, env=own, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("sluice", "again"), [("exit 0", False), ("exit 1", True)], ids=["works", "broken"])
def test_a_venv_whose_command_does_not_run_is_set_up_again(checkout: Path, sluice: str, again: bool) -> None:
    """After an upgrade of Python, or a move of the checkout."""
    (checkout / ".venv/.installed").touch()
    script(checkout / ".venv/bin/sluice", sluice)
    assert ("-m venv --clear .venv" in make(checkout, "--dry-run", "setup").stdout) == again


def test_a_venv_that_it_has_not_made_is_not_deleted(checkout: Path) -> None:
    """If its Python is too old, that is reported."""
    script(checkout / ".venv/bin/python", "exit 1")
    made = make(checkout, "setup")
    assert made.returncode
    assert made.stdout == ".venv is of a Python that is too old, or gone; make clean removes it\n"
    assert "--clear" not in make(checkout, "--dry-run", "setup").stdout


def test_a_python_that_is_too_old_is_reported(checkout: Path) -> None:
    made = make(checkout, "setup", "PYTHON=false")
    assert made.returncode
    assert made.stdout == "sluice needs Python >= 3.11; set PYTHON=...\n"


def test_pip_installs_into_the_venv_with_user_set(checkout: Path) -> None:
    """Without PIP_USER=0 pip refuses."""
    script(checkout / ".venv/bin/python", 'case "$*" in "-m pip "*) echo "user $PIP_USER: ${*##* }";; esac')
    assert make(checkout, "setup").stdout.splitlines() == [
        "Setting up .venv (once) ...",
        "user 0: .",
        "Adding the development tools to .venv (once) ...",
        "user 0: .[dev]",
    ]


def test_the_demo_installs_no_development_tools(checkout: Path) -> None:
    script(checkout / ".venv/bin/python", 'case "$*" in "-m pip "*) echo "pip: ${*##* }";; esac')
    script(checkout / ".venv/bin/sluice", 'echo "sluice $*"')
    assert make(checkout, "demo").stdout.splitlines() == ["Setting up .venv (once) ...", "pip: .", "sluice demo"]
    assert make(checkout, "demo").stdout == "sluice demo\n"


def test_a_new_venv_gets_its_development_tools_again(checkout: Path) -> None:
    """Both stamps are in the .venv that is cleared."""
    for stamp in (".installed", ".tools-installed"):
        (checkout / ".venv" / stamp).touch()
    script(checkout / ".venv/bin/python", 'case "$*" in "-m pip "*) echo "pip: ${*##* }";; esac')
    script(checkout / ".venv/bin/sluice", "exit 1")
    assert "pip: .[dev]" in make(checkout, "lint").stdout
