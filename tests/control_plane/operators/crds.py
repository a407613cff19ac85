"""The CRDs of the Prometheus operator and of cert-manager, which read objects of ours: `make control-plane`.

cert-manager has them as files in its Go module; those of the Prometheus operator are made from its Go types with
controller-gen, as it makes them itself. The go.mod files below this folder pin the versions. The CRDs are put into a
cache outside the checkout that is keyed by these: a second run takes no time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TYPES = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring"
CERT_MANAGER = "github.com/cert-manager/cert-manager"
MADE = ("monitoring.coreos.com_servicemonitors.yaml", "monitoring.coreos.com_prometheusrules.yaml")
COPIED = ("cert-manager.io_certificates.yaml", "cert-manager.io_issuers.yaml")


def _pinned(folder: str, module: str) -> str:
    [version] = re.findall(
        rf"^(?:require|\t)? ?{re.escape(module)} (v\S+)", (HERE / folder / "go.mod").read_text(), re.M
    )
    return str(version)


def folder() -> Path:
    """Where the CRDs are, or will be."""
    monitoring, cert_manager = _pinned("prometheus", TYPES), _pinned("certmanager", CERT_MANAGER)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "sluice" / f"crds-monitoring-{monitoring}-cert-manager-{cert_manager}"


def files() -> list[Path]:
    """The CRDs. Raises FileNotFoundError if they are not there."""
    found = [folder() / name for name in (*MADE, *COPIED)]
    for file in found:
        if not file.is_file():
            raise FileNotFoundError(f"{file}; run `make control-plane`")
    return found


def _make(target: Path) -> None:
    made = target / "made"
    command = ["go", "tool", "controller-gen", "crd", f"paths={TYPES}/v1", f"output:crd:dir={made}"]
    subprocess.run(command, cwd=HERE / "prometheus", env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    for name in MADE:
        (made / name).rename(target / name)
    shutil.rmtree(made)


def _copy(target: Path) -> None:
    command = ["go", "mod", "download", "-json", CERT_MANAGER]
    done = subprocess.run(command, cwd=HERE / "certmanager", check=True, capture_output=True, text=True)
    place = Path(json.loads(done.stdout)["Dir"]) / "deploy" / "crds"
    for name in COPIED:
        shutil.copyfile(place / name, target / name)


def main() -> int:
    target = folder()
    if not target.is_dir():
        print(f"making {target.name} ...", flush=True)
        began = time.monotonic()
        scratch = target.with_suffix(".part")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        _make(scratch)
        _copy(scratch)
        scratch.rename(target)
        print(f"  CRDs: made in {time.monotonic() - began:.0f} s", flush=True)
    print(f"✔ {'CRDs of operators':24} {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
