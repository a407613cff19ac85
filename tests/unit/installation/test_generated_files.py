"""The committed files below deploy/ are those that the code generates."""

from __future__ import annotations

from pathlib import Path

from queue_manager.installation.generated_files import ROLES, ROOTS, files

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_the_committed_files_are_those_that_the_code_generates() -> None:
    for path, text in files().items():
        assert (DEPLOY / path).read_text(encoding="utf-8") == text, f"{path} is out of date: make manifests"


def test_no_file_is_left_that_the_code_no_longer_generates() -> None:
    found = {str(file.relative_to(DEPLOY)) for folder in ROOTS for file in (DEPLOY / folder).rglob("*")} | {ROLES}
    folders = {str(Path(path).parents[depth]) for path in files() for depth in range(len(Path(path).parents))}
    assert found - folders == set(files())
