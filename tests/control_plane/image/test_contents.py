"""What is in the image, and what is not."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest

from queue_manager.cli.version_line import COMMIT_DIGITS
from tests.control_plane.conftest import ROOT
from tests.control_plane.image import container
from tests.control_plane.image.oci_layout import Image

pytestmark = [pytest.mark.control_plane, pytest.mark.image]

SHELLS = {"sh", "ash", "bash", "dash", "rbash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh", "busybox", "toybox"}
IMPORT_ALL = """
import pkgutil, importlib, job_controller, queue_manager
packages = (job_controller, queue_manager)
names = [m.name for p in packages for m in pkgutil.walk_packages(p.__path__, p.__name__ + ".")]
only_run_by_others = ("queue_manager.accounting.migrations.", "queue_manager.pytest_plugin")  # by Alembic, by pytest
for name in names:
    if not name.startswith(only_run_by_others):
        importlib.import_module(name)
import bz2, lzma, sqlite3, ssl, uuid, zlib, ctypes, hashlib
print(len(names), "modules,", len(ssl.create_default_context().get_ca_certs()), "authorities")
"""


def files(image: Image) -> list[Path]:
    return [path for path in image.root.rglob("*") if path.is_file() and not path.is_symlink()]


def programs(image: Image) -> set[str]:
    """Executable ELF files, and executable scripts with their interpreters."""
    found = set()
    for path in files(image):
        if path.stat().st_mode & 0o111:
            with path.open("rb") as file:
                head = file.read(128)
            name = str(path.relative_to(image.root))
            if head.startswith(b"\x7fELF") and ".so" not in path.name:
                found.add(name)
            elif head.startswith(b"#!"):
                found.add(f"{name}: {head.splitlines()[0].decode()}")
    return found


def test_the_image_has_no_shell_under_any_name(image: Image) -> None:
    named = {str(path) for path in image.root.rglob("*") if path.name in SHELLS and not path.is_dir()}
    assert named == set()
    assert not [each for each in programs(image) if re.search(r": #!\s*(/usr)?/bin/(env )?\w*sh\b", each)]


def test_the_only_programs_are_python_and_sluice(image: Image) -> None:
    own = {each for each in programs(image) if "/lib/python3" not in each}  # modules that can be run as scripts
    assert own == {"usr/bin/python3.13", "opt/sluice/bin/sluice: #!/opt/sluice/bin/python"}


def test_no_file_is_setuid_or_writable_for_everyone(image: Image) -> None:
    found = []
    for path in image.root.rglob("*"):
        mode = path.lstat().st_mode
        shared_folder = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
        if not stat.S_ISLNK(mode) and (mode & (stat.S_ISUID | stat.S_ISGID) or (mode & 0o002 and not shared_folder)):
            found.append(str(path.relative_to(image.root)))
    assert found == []


def test_all_files_belong_to_root(image: Image) -> None:
    """The user of the image can change none of them even if the root were writable."""
    assert {path.lstat().st_uid for path in image.root.rglob("*")} == {0}


def test_the_user_is_not_root_and_is_a_number(image: Image) -> None:
    """The kubelet checks runAsNonRoot by the number."""
    assert image.config["User"] == "65532:65532"


def test_the_labels_name_the_version_and_the_commit(image: Image) -> None:
    labels = {key.rpartition(".")[2]: value for key, value in image.config["Labels"].items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (labels["title"], labels["version"]) == (project["name"], project["version"])
    assert labels["licenses"] == project["license"]
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", labels["revision"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", labels["created"])


def test_the_program_names_the_commit_of_the_label(image: Image, bundle: Path) -> None:
    command = container.command(bundle, image, image.program("--version"))
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    revision = image.config["Labels"]["org.opencontainers.image.revision"]
    assert f" (commit {revision[:COMMIT_DIGITS]}), Python 3." in done.stdout


def test_the_sbom_lists_every_installed_distribution(image: Image) -> None:
    bom = json.loads((image.root / "usr/share/sbom/sluice.cdx.json").read_text())
    listed = {(normal(each["name"]), each["version"]) for each in [*bom["components"], bom["metadata"]["component"]]}
    site = next(image.root.glob("opt/sluice/lib/python3*/site-packages"))
    python = {(normal(each.name), each.version) for each in distributions(path=[str(site)])}
    assert len(python) > 40
    assert python | debian_packages(image) == listed


def debian_packages(image: Image) -> set[tuple[str, str]]:
    """Those whose files are in the image, by their copyright files, which every Debian package has."""
    status = {path.name: path.read_text() for path in (image.root / "var/lib/dpkg/status.d").iterdir()}
    documented = {path.name for path in (image.root / "usr/share/doc").iterdir()}
    assert documented == set(status)
    return {(normal(name), re.findall("^Version: (.*)$", text, re.M)[0]) for name, text in status.items()}


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def test_every_module_finds_its_libraries(image: Image, bundle: Path) -> None:
    """Imports all modules of the product, in the image, which fails where debian-packages.txt lacks a library."""
    command = container.command(bundle, image, ["/opt/sluice/bin/python", "-c", IMPORT_ALL])
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[1-9]\d\d modules, [1-9]\d\d authorities\n", done.stdout), done.stdout
