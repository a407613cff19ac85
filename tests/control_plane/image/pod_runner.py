"""Runs a pod of an installed Deployment as a kubelet does: what its spec says, in a container of the image.

The arguments, the mounts and the service account come from the Pod object of the API server. What a kubelet and the
admission plugin ServiceAccount add is added here: the variables that lead to the API server, and the token's mount.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from job_controller.json_tree import Json
from queue_manager.api.api_resources import CONFIG_MAPS, NODES, PODS
from queue_manager.engine.rest_client import RestClient
from tests.control_plane.image import container
from tests.control_plane.image.container import SERVICE_ACCOUNT, Surroundings
from tests.control_plane.image.oci_layout import Image
from tests.control_plane.image.pod_network import PodPlace
from tests.control_plane.manager.process import Manager
from tests.control_plane.manager.service_account import Account
from tests.control_plane.server import ControlPlane
from tests.waiting import until

LAST_LINES = 50  # of the output of a manager, in the report of a test that fails


@dataclass(frozen=True)
class RunningPod:
    """`manager`: the process of its container."""

    name: str
    address: str
    manager: Manager


@dataclass(frozen=True)
class PodRunner:
    """`folder`: for files of the pods; the image's user must be able to enter it. `close` ends all that was started."""

    api: RestClient
    plane: ControlPlane
    image: Image
    folder: Path
    _bundles: list[Path] = field(default_factory=list)
    _processes: list[Manager] = field(default_factory=list)

    async def run(self, pod: Json, place: PodPlace) -> RunningPod:
        """Start the pod's container, and write its address into the Pod once its readiness probe succeeds."""
        meta, spec = pod["metadata"], pod["spec"]
        name, folder = meta["name"], self.folder / meta["name"]
        [manager] = spec["containers"]
        bundle = folder / name
        folder.mkdir()
        server = urlsplit(self.plane.url)
        env = [f"KUBERNETES_SERVICE_HOST={server.hostname}", f"KUBERNETES_SERVICE_PORT={server.port}"]
        binds = await self._volumes(pod, folder) | {SERVICE_ACCOUNT: await self._account(pod, folder)}
        given = Surroundings([f"HOSTNAME={name}", *env], binds, place.namespace, name)
        self._bundles.append(bundle)
        command = container.command(bundle, self.image, self.image.program(*manager["args"]), given)
        process = await Manager.run(command, folder / "manager.log", until="serving")
        self._processes.append(process)
        await self._bind(pod)
        await until(lambda: _is_ready(manager, place.address), f"{name} is ready")
        await self._report_ready(pod, place.address)
        return RunningPod(name, place.address, process)

    async def close(self) -> None:
        """End the containers that still run."""
        for bundle in self._bundles:
            remove = [*container.runc(bundle), "delete", "--force", bundle.name]
            subprocess.run(remove, check=False, capture_output=True)  # fails for a container that has ended
        for process in self._processes:
            await process.kill()
            print("a manager:", *process.lines[-LAST_LINES:], sep="\n")  # shown if the test fails

    async def _bind(self, pod: Json) -> None:
        """As a scheduler does: an EndpointSlice has only pods of nodes that exist."""
        meta = pod["metadata"]
        await self.api.create(NODES, "", {"metadata": {"name": f"node-of-{meta['name']}"}})
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-of-{meta['name']}"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
        await self.api.create(PODS, meta["namespace"], binding, name=meta["name"], subresource="binding")

    async def _account(self, pod: Json, folder: Path) -> Path:
        namespace = pod["metadata"]["namespace"]
        token, _ = await Account(self.api, namespace, pod["spec"]["serviceAccountName"]).token()
        files = {"token": token, "namespace": namespace}
        return write_folder(folder / "account", files, self.plane.ca)

    async def _volumes(self, pod: Json, folder: Path) -> dict[str, Path]:
        """The folders of the pod's ConfigMaps, by their place in the container."""
        found = {}
        [manager] = pod["spec"]["containers"]
        names = {volume["name"]: volume["configMap"]["name"] for volume in pod["spec"]["volumes"]}
        for mount in manager["volumeMounts"]:
            files = await self.api.get(CONFIG_MAPS, pod["metadata"]["namespace"], names[mount["name"]])
            found[mount["mountPath"]] = write_folder(folder / mount["name"], files["data"])
        return found

    async def _report_ready(self, pod: Json, address: str) -> None:
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready}
        meta = pod["metadata"]
        await self.api.patch(PODS, meta["namespace"], meta["name"], {"status": status}, subresource="status")


def write_folder(folder: Path, files: dict[str, str], authority: Path | None = None) -> Path:
    """Files that every user can read; with an authority also ca.crt."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    if authority is not None:
        shutil.copy(authority, folder / "ca.crt")
    for file in folder.iterdir():
        file.chmod(0o644)
    return folder


async def _is_ready(manager: Json, address: str) -> bool:
    """The readiness probe of the pod's container."""
    probe = manager["readinessProbe"]["httpGet"]
    [port] = [each["containerPort"] for each in manager["ports"] if each["name"] == probe["port"]]
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}:{port}{probe['path']}") as answer:
        return answer.status == 200
