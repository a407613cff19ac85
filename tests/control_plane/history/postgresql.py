"""A real PostgreSQL for the tests of the history: `make control-plane` provides it, `Server` runs it.

An installed one (Debian's packages postgresql, postgresql-NN) is used as it is. Else it is installed with apt-get (as
root), or its packages are downloaded with those they need and unpacked into a cache outside the checkout.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

INSTALLED = Path("/usr/lib/postgresql")
OTHER_USER = "nobody"  # PostgreSQL does not run as root
START_SECONDS = 60
STRICT = ("-v", "ON_ERROR_STOP=1")  # psql ends at the first error


def cache() -> Path:
    """The folder that packages are unpacked into."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice" / "postgresql"


def binaries() -> Path | None:
    """The folder of `postgres`, `initdb` and `pg_ctl`, of the newest version."""
    folders = [*INSTALLED.glob("*/bin"), *(cache() / "usr/lib/postgresql").glob("*/bin")]
    found = [folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()]
    return max(found, key=lambda folder: float(folder.parent.name), default=None)


def libraries() -> Mapping[str, str]:
    """The environment in which unpacked programs find their libraries."""
    folders = {str(file.parent) for file in cache().rglob("*.so*")}
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(folders))} if folders else os.environ


class Server:
    """One server with its data in a folder. It listens on no port, only on a socket in that folder."""

    def __init__(self, folder: Path) -> None:
        found = binaries()
        if found is None:
            raise RuntimeError("no PostgreSQL; run: make control-plane")
        self._binaries = found
        self._folder = folder
        self._data = folder / "data"
        self.url = self.url_of("sluice", "postgres")
        if os.geteuid() == 0:
            shutil.chown(folder, OTHER_USER)
        self._run("initdb", "--auth=trust", "--username=sluice", "--no-sync", "--pgdata", str(self._data))

    def url_of(self, role: str, database: str) -> str:
        """The URL of a database, with the role that opens it."""
        return f"postgresql://{role}@/{database}?host={self._folder}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", str(START_SECONDS), "-l", log, "-o", settings, "start")

    def stop(self) -> None:
        """End it at once, and all its connections."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "immediate", "stop")

    def execute(self, script: str) -> None:
        """Run a script of psql as the administrator."""
        self._run("psql", "-d", "postgres", "-h", str(self._folder), "-U", "sluice", *STRICT, stdin=script)

    def _run(self, program: str, *arguments: str, stdin: str = "") -> None:
        user = OTHER_USER if os.geteuid() == 0 else None
        done = subprocess.run(
            [str(self._binaries / program), *arguments],
            check=False,
            input=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env=libraries(),
            user=user,
            group=pwd.getpwnam(user).pw_gid if user is not None else None,
            timeout=2 * START_SECONDS,
        )
        assert done.returncode == 0, f"{program}: {done.stderr}"


def socket_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for a server: the path of a socket may have 107 characters only, so it is not pytest's."""
    return tempfile.TemporaryDirectory(prefix="sluice-pg-", dir="/tmp")


def install() -> None:
    """Install it as root."""
    apt = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "postgresql"]
    subprocess.run(["apt-get", "update", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(apt, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def unpack() -> None:
    """Download and unpack its packages, and those they need that are not installed."""
    planned = subprocess.run(
        ["apt-get", "--simulate", "install", "--no-install-recommends", "postgresql"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = [line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", *names], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        for package in sorted(Path(folder).glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", str(package), str(cache())], check=True)


def main() -> int:
    if binaries() is None:
        if shutil.which("apt-get") is None:
            print("no PostgreSQL, and no apt-get to install it with", file=sys.stderr)
            return 1
        print("providing PostgreSQL ...", flush=True)
        if os.geteuid() == 0:
            install()
        else:
            cache().mkdir(parents=True, exist_ok=True)
            unpack()
    print(f"✔ {'postgresql':24} {binaries()}")
    return 0 if binaries() is not None else 1


if __name__ == "__main__":
    sys.exit(main())
