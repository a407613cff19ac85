from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.control_plane.image import container
from tests.control_plane.image.oci_layout import LAYOUT, Image, unpack


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """The image of `make image`, unpacked where the image's user can enter: not below pytest's own folder (0700)."""
    root = Path(mkdtemp(prefix="sluice-image-"))
    root.chmod(0o755)
    yield unpack(LAYOUT, root)
    shutil.rmtree(root)


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[Path]:
    """The folder of a container, which must not outlive the test."""
    folder = tmp_path / tmp_path.name
    yield folder
    # Fails for a container that has ended: runc has removed it.
    subprocess.run([*container.runc(folder), "delete", "--force", folder.name], check=False, capture_output=True)
