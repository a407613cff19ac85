"""Read the OCI layout that `make image` leaves: the image's configuration, and its root file system, unpacked."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAYOUT = Path(__file__).resolve().parents[3] / "build" / "image"


@dataclass(frozen=True)
class Image:
    """`config` is the part of the image's configuration that a runtime needs: User, Env, Entrypoint, Cmd, Labels."""

    config: dict[str, Any]
    root: Path

    def program(self, *arguments: str) -> list[str]:
        """The entry point with these arguments instead of the image's own."""
        return [*self.config["Entrypoint"], *(arguments or self.config["Cmd"])]


def unpack(layout: Path, root: Path) -> Image:
    """Unpack the layers into `root`, with their owners and modes."""
    manifest = blob(layout, json.loads((layout / "index.json").read_text())["manifests"][0])
    for layer in manifest["layers"]:
        with tarfile.open(path_of(layout, layer)) as archive:
            whiteouts = [name for name in archive.getnames() if Path(name).name.startswith(".wh.")]
            assert not whiteouts, f"a layer deletes files of an earlier one: {whiteouts}"
            archive.extractall(root, numeric_owner=True, filter="fully_trusted")
    return Image(blob(layout, manifest["config"])["config"], root)


def blob(layout: Path, descriptor: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(path_of(layout, descriptor).read_text())
    return tree


def path_of(layout: Path, descriptor: dict[str, Any]) -> Path:
    return layout / "blobs" / str(descriptor["digest"]).replace(":", "/")
