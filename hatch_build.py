"""Build hook of hatchling: adds what a checkout does not have as files.

A wheel or sdist that is built from a checkout names its commit in queue_manager/COMMIT. A wheel installs the man pages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"  # runs from the checkout, which names its commit itself


class GeneratedFilesHook(BuildHookInterface):
    """Adds those files. Without git or a checkout it adds no commit: an sdist has the file of its own build."""

    folder = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files to a temporary folder; they become part of what is built."""
        if version == EDITABLE:
            return
        self.folder = tempfile.mkdtemp(prefix="sluice-build-")
        if commit := _commit(Path(self.root)):
            file = Path(self.folder, "COMMIT")
            file.write_text(f"{commit}\n")
            build_data["force_include"][str(file)] = "queue_manager/COMMIT"
        if self.target_name == "wheel":
            pages = Path(self.folder, "man1")
            _write_man_pages(pages, self.root, self.metadata.version)
            build_data["shared_data"][str(pages)] = "share/man/man1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if self.folder:
            shutil.rmtree(self.folder)


def _write_man_pages(folder: Path, root: str, version: str) -> None:
    """Write all pages. The modules that make them need no package, so that a build needs none."""
    sys.path.insert(0, root)
    from queue_manager.cli.arguments import parser
    from queue_manager.cli.man_page import man_pages

    today = datetime.fromtimestamp(float(os.environ.get("SOURCE_DATE_EPOCH") or time.time()), UTC).date()
    folder.mkdir()
    for name, text in man_pages(parser(), version, today).items():
        (folder / name).write_text(text, encoding="utf-8")


def _commit(root: Path) -> str:
    repository = root / ".git"
    if not repository.exists():  # git would find a repository around the folder
        return ""
    command = ["git", "--git-dir", str(repository), "rev-parse", "--verify", "HEAD"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:  # there is no git
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
