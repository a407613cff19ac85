"""Provide kube-apiserver, kube-controller-manager, kubectl and etcd for the tests: `make control-plane`.

Binaries in $KUBEBUILDER_ASSETS (default /usr/local/kubebuilder/bin, where envtest keeps them) are used as they are.
Missing ones are built from the Go modules pinned in go.mod and etcd/go.mod beside this file, into a cache outside the
checkout that is keyed by those versions: a second run takes no time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kubectl")
BINARIES = (*KUBERNETES, "etcd")


@dataclass(frozen=True)
class Versions:
    kubernetes: str
    etcd: str


def versions() -> Versions:
    """The versions that go.mod pins."""

    def pinned(file: Path, module: str) -> str:
        found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", file.read_text(), re.MULTILINE)
        if found is None:
            raise SystemExit(f"{file}: no version of {module}")
        return found[1]

    return Versions(
        pinned(HERE / "go.mod", "k8s.io/kubernetes"), pinned(HERE / "etcd" / "go.mod", "go.etcd.io/etcd/server/v3")
    )


def assets() -> Path:
    return Path(os.environ.get("KUBEBUILDER_ASSETS") or "/usr/local/kubebuilder/bin")


def cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pins = versions()
    return base / "sluice" / f"control-plane-kubernetes-{pins.kubernetes}-etcd-{pins.etcd}"


def find(name: str) -> Path | None:
    """The path of a binary, or None."""
    for folder in (assets(), cache()):
        file = folder / name
        if file.is_file() and os.access(file, os.X_OK):
            return file
    return None


def missing() -> list[str]:
    return [name for name in BINARIES if find(name) is None]


def build(name: str, target: Path) -> None:
    """Build one binary into `target`, printing the number of finished packages meanwhile."""
    module = HERE / "etcd" if name == "etcd" else HERE
    package = "go.etcd.io/etcd/server/v3" if name == "etcd" else f"k8s.io/kubernetes/cmd/{name}"
    flags = "-s -w"
    if name != "etcd":
        flags += f" -X k8s.io/component-base/version.gitVersion={versions().kubernetes}"
    scratch = target / f".{name}.part"
    command = ["go", "build", "-v", "-mod=readonly", "-ldflags", flags, "-o", str(scratch), package]
    started = time.monotonic()
    env = {**os.environ, "CGO_ENABLED": "0"}
    with subprocess.Popen(command, cwd=module, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if len(lines) % 200 == 0:
                print(f"  {name}: {len(lines)} packages, {time.monotonic() - started:.0f} s", flush=True)
    if process.returncode:
        raise SystemExit(f"go build {package} failed:\n{''.join(lines[-20:])}")
    scratch.rename(target / name)
    print(f"  {name}: built in {time.monotonic() - started:.0f} s", flush=True)


def main() -> int:
    wanted = missing()
    if wanted:
        if shutil.which("go") is None:
            print(f"no {', '.join(wanted)} in {assets()}, and no go to build them with", file=sys.stderr)
            return 1
        target = cache()
        target.mkdir(parents=True, exist_ok=True)
        print(f"building {', '.join(wanted)} (kubernetes {versions().kubernetes}, etcd {versions().etcd}) ...")
        for name in wanted:
            build(name, target)
    for name in BINARIES:
        print(f"✔ {name:24} {find(name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
