"""Provide kube-apiserver, kube-controller-manager, kubectl, etcd and helm for the tests: `make control-plane`.

Binaries in $KUBEBUILDER_ASSETS (default /usr/local/kubebuilder/bin, where envtest keeps them) are used as they are.
Missing ones are built from the Go modules pinned in go.mod, etcd/go.mod and helm/go.mod beside this file, into caches
outside the checkout that are keyed by those versions: a second run takes no time.
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
BINARIES = (*KUBERNETES, "etcd", "helm")
MODULES = {"etcd": HERE / "etcd", "helm": HERE / "helm"}  # the others are of the module in this folder
PACKAGES = {"etcd": "go.etcd.io/etcd/server/v3", "helm": "helm.sh/helm/v4/cmd/helm"}


@dataclass(frozen=True)
class Versions:
    kubernetes: str
    etcd: str
    helm: str


def versions() -> Versions:
    """The versions that go.mod pins."""

    def pinned(file: Path, module: str) -> str:
        found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", file.read_text(), re.MULTILINE)
        if found is None:
            raise SystemExit(f"{file}: no version of {module}")
        return found[1]

    return Versions(
        pinned(HERE / "go.mod", "k8s.io/kubernetes"),
        pinned(HERE / "etcd" / "go.mod", "go.etcd.io/etcd/server/v3"),
        pinned(HERE / "helm" / "go.mod", "helm.sh/helm/v4"),
    )


def assets() -> Path:
    return Path(os.environ.get("KUBEBUILDER_ASSETS") or "/usr/local/kubebuilder/bin")


def cache(name: str) -> Path:
    """The folder that a binary is built into."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pins = versions()
    if name == "helm":
        return base / "sluice" / f"helm-{pins.helm}"
    return base / "sluice" / f"control-plane-kubernetes-{pins.kubernetes}-etcd-{pins.etcd}"


def find(name: str) -> Path | None:
    """The path of a binary, or None."""
    for folder in (assets(), cache(name)):
        file = folder / name
        if file.is_file() and os.access(file, os.X_OK):
            return file
    return None


def missing() -> list[str]:
    return [name for name in BINARIES if find(name) is None]


def build(name: str, target: Path) -> None:
    """Build one binary into `target`, printing the number of finished packages meanwhile."""
    module = MODULES.get(name, HERE)
    package = PACKAGES.get(name, f"k8s.io/kubernetes/cmd/{name}")
    flags = "-s -w"
    if name in KUBERNETES:
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
        pins = versions()
        print(f"building {', '.join(wanted)} (kubernetes {pins.kubernetes}, etcd {pins.etcd}, helm {pins.helm}) ...")
        for name in wanted:
            target = cache(name)
            target.mkdir(parents=True, exist_ok=True)
            build(name, target)
    for name in BINARIES:
        print(f"✔ {name:24} {find(name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
