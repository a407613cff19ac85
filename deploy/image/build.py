"""Build the OCI image of deploy/Containerfile without a container engine, as root on Linux.

    python deploy/image/build.py tools    install the Debian packages that the build needs: `make image-tools`
    python deploy/image/build.py          build the image: `make image`

buildah runs the steps in a chroot, with copied folders (vfs) as its storage. That needs no daemon, user namespaces,
overlayfs, cgroups or network of its own. mmdebstrap makes the root file system of the build stage from Debian's
packages, so no image registry is needed either. Both are packages of Debian 12 and later. The alternatives, umoci and
apko, cannot read a Containerfile: the image tested here would not be the one that a container engine builds.

The root file system of the build stage is kept in ~/.cache/sluice. No package of it reaches the final stage, whose
packages are downloaded at each build. The result is an OCI layout in build/image. All its time stamps are those of the
last commit: the same commit with the same Debian packages has the same digest.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYOUT = ROOT / "build" / "image"
SUITE = "trixie"  # Debian 13, of the same suite as the default of BASE in the Containerfile
BASE = "localhost/sluice-base"
# Commands and the Debian packages that have them. `make test-image` runs the image with runc, in networks of ip.
TOOLS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap", "runc": "runc", "ip": "iproute2"}
CERTIFICATES = "/run/build-certificates.crt"  # where the build stage finds the file that PIP_CERT names here


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def obstacle() -> str:
    """Why no image can be built on this machine, or an empty string."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "only root on Linux can build the image: the build needs chroot"
    if missing_tools():
        return f"missing: {', '.join(missing_tools())}; on Debian or Ubuntu install them with: make image-tools"
    return ""


def install_tools() -> None:
    if missing_tools():
        output("apt-get", "update", "--quiet")
        packages = [TOOLS[tool] for tool in missing_tools()]
        output("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages)


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.strip()


def base() -> Path:
    """The root file system of a Debian with apt and Python, as a tar archive that is made once."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice"
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"image-base-{SUITE}.tar"
    if not archive.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "base.tar"
            output("mmdebstrap", "--quiet", "--variant=apt", "--include=ca-certificates,python3-venv", SUITE, str(made))
            made.rename(archive)
    return archive


@contextlib.contextmanager
def buildah() -> Iterator[tuple[str, ...]]:
    """The buildah command with a storage of its own, which is removed afterwards."""
    LAYOUT.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="storage-", dir=LAYOUT.parent) as folder:
        yield ("buildah", "--storage-driver", "vfs", "--root", f"{folder}/root", "--runroot", f"{folder}/run")


def import_base(command: tuple[str, ...]) -> None:
    container = output(*command, "from", "scratch")
    output(*command, "add", "--quiet", container, str(base()), "/")
    output(*command, "commit", "--quiet", "--rm", container, BASE)


def index_flags() -> list[str]:
    """The Python index of this machine and the file with the certificate authorities that it needs."""
    flags = [f"--build-arg=PIP_INDEX_URL={os.environ['PIP_INDEX_URL']}"] if os.environ.get("PIP_INDEX_URL") else []
    if os.environ.get("PIP_CERT"):
        flags += [f"--volume={os.environ['PIP_CERT']}:{CERTIFICATES}:ro", f"--build-arg=PIP_CERT={CERTIFICATES}"]
    return flags


def revision() -> tuple[str, str]:
    """The last commit, and its time in seconds since 1970. Without a repository: unknown, and the time of a file."""
    if not (ROOT / ".git").exists():
        return "unknown", str(int((ROOT / "pyproject.toml").stat().st_mtime))
    commit = output("git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    return commit, output("git", "log", "-1", "--format=%ct")


def build(command: tuple[str, ...], tag: str) -> None:
    """Build the Containerfile into the layout."""
    commit, epoch = revision()
    arguments = {
        "BASE": BASE,
        "SOURCE_DATE_EPOCH": epoch,
        "VERSION": tag,
        "REVISION": commit,
        "CREATED": datetime.fromtimestamp(int(epoch), UTC).isoformat(),
    }
    given = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    steps = [*command, "bud", "--quiet", "--isolation=chroot", "--layers=false", f"--timestamp={epoch}", *given]
    image = f"localhost/sluice:{tag}"
    output(*steps, *index_flags(), "--file=deploy/Containerfile", f"--tag={image}", ".")
    shutil.rmtree(LAYOUT, ignore_errors=True)
    subprocess.run([*command, "push", "--quiet", image, f"oci:{LAYOUT}:{tag}"], check=True)


def describe(tag: str) -> str:
    """Digest and compressed size of the image in the layout."""
    digest: str = json.loads((LAYOUT / "index.json").read_text())["manifests"][0]["digest"]
    manifest = json.loads((LAYOUT / "blobs" / digest.replace(":", "/")).read_text())
    size = sum(layer["size"] for layer in manifest["layers"])
    return f"sluice:{tag} {digest}, {size / 1e6:.0f} MB compressed, in {LAYOUT.relative_to(ROOT)} (OCI layout)"


def make_image() -> None:
    tag = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with buildah() as command:
        import_base(command)
        build(command, tag)
    print(describe(tag))


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["tools"]:
            install_tools()
        elif reason := obstacle():
            print(f"make image: {reason}", file=sys.stderr)
            return 1
        else:
            make_image()
    except subprocess.CalledProcessError as error:
        print(f"make image: {error.cmd[0]} failed with exit code {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
