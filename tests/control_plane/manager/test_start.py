"""A manager that cannot start prints the cause in one line and exits with code 3."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from queue_manager.api.api_resources import CRDS
from queue_manager.configuration import loads
from queue_manager.engine import kubeconfig as kubeconfigs
from queue_manager.engine.renewing_transport import ClusterTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.operator import preflight
from queue_manager.operator.leadership_terms import Controllers
from queue_manager.operator.required_permissions import ALL, JOB_CONTROLLER, QUEUE, READ, each_verb, needs, rules
from tests.control_plane.conftest import install_kinds
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import refusal
from tests.control_plane.manager.service_account import Account, account, without, write_kubeconfig
from tests.control_plane.server import ControlPlane, free_ports
from tests.waiting import until

pytestmark = pytest.mark.control_plane

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


async def of(who: Account, plane: ControlPlane, tmp_path: Path) -> Path:
    return write_kubeconfig(tmp_path / "kubeconfig", plane.url, {"token": (await who.token())[0]}, plane)


async def test_missing_crds_are_reported_with_the_command_that_installs_them(
    plane: ControlPlane, api: RestClient, kubeconfig: Path
) -> None:
    await api.delete(CRDS, "", "workloads.kueue.x-k8s.io")
    transport = ClusterTransport(lambda: kubeconfigs.load(plane.kubeconfig))

    async def not_served() -> bool:
        try:
            await preflight.check(transport, plane.url, [QUEUE])
        except preflight.CannotStart:
            return True
        return False

    try:
        await until(not_served, "workloads are no longer served")
        assert await refusal(kubeconfig=kubeconfig) == (
            "the cluster has no kueue.x-k8s.io/v1beta2 workloads: run `sluice crds | kubectl apply --server-side -f -`"
        )
        await preflight.check(transport, plane.url, [JOB_CONTROLLER])  # the Job controller needs none of them
    finally:
        await transport.close()
        await asyncio.to_thread(install_kinds, plane)


async def test_without_any_permission_all_needed_rights_are_named(
    plane: ControlPlane, api: RestClient, namespace: str, tmp_path: Path
) -> None:
    said = await refusal(kubeconfig=await of(await account(api, namespace, []), plane, tmp_path))
    assert said.startswith("missing permissions in all namespaces: get, delete, list, watch, patch jobs.batch; patch ")
    assert "create, delete, patch, list, watch pods; create, patch, list events; " in said


async def test_missing_rights_of_several_places_are_named_at_once(
    plane: ControlPlane, api: RestClient, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    config = tmp_path / "config" / "elects.yaml"
    config.write_text(f"{HEAD}leaderElection: {{resourceNamespace: {namespace}}}\n")
    kubeconfig = await of(await account(api, namespace, without("watch", "pods")), plane, tmp_path)
    said = "missing permissions in all namespaces: watch pods; bind a ClusterRole that grants them; "
    lease = "get, create, update leases.coordination.k8s.io; bind a Role that grants them"
    assert await refusal(f"--config={config}", kubeconfig=kubeconfig) == f"{said}in namespace {namespace}: {lease}"


@pytest.mark.parametrize(
    ("verb", "resource", "said"),
    [
        ("patch", "workloads/status", "patch workloads.kueue.x-k8s.io/status"),
        ("watch", "pods", "watch pods"),
        ("delete", "jobs", "delete jobs.batch"),
    ],
)
async def test_a_missing_permission_is_named_by_verb_and_resource(
    plane: ControlPlane, api: RestClient, namespace: str, tmp_path: Path, verb: str, resource: str, said: str
) -> None:
    allowed = without(verb, resource)
    if resource == "jobs":
        assert allowed != rules(ALL)
    kubeconfig = await of(await account(api, namespace, allowed), plane, tmp_path)
    assert await refusal(kubeconfig=kubeconfig) == (
        f"missing permissions in all namespaces: {said}; bind a ClusterRole that grants them"
    )


async def test_the_job_controller_alone_needs_only_its_own_rights(
    plane: ControlPlane, api: RestClient, namespace: str, tmp_path: Path, start: Start
) -> None:
    kubeconfig = await of(await account(api, namespace, rules([JOB_CONTROLLER])), plane, tmp_path)
    manager = await start(kubeconfig, "--controllers", "job-controller")
    assert (await manager.get("/readyz"))[0] == 200


async def test_an_unknown_token_is_reported(plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", plane.url, {"token": "nobody's"}, plane)
    assert await refusal(kubeconfig=kubeconfig) == (
        f"the API server {plane.url} rejects the credentials (401 Unauthorized): log in again"
    )


async def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    said = await refusal(kubeconfig=write_kubeconfig(tmp_path / "kubeconfig", url, {"token": "t"}))
    assert said.startswith(f"no response from the API server {url}: ")


async def test_an_untrusted_certificate_is_reported(plane: ControlPlane, tmp_path: Path) -> None:
    said = await refusal(kubeconfig=write_kubeconfig(tmp_path / "kubeconfig", plane.url, {"token": "t"}))
    assert said.startswith(f"no response from the API server {plane.url}: ")
    assert "certificate verify failed" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "{path}: is not YAML: "),
        ("a: 1", "{path}: no current-context is set; name a context"),
        ("current-context: x", "{path}: contexts has no entry 'x'; there are: none"),
        (None, "{path}: No such file or directory"),
    ],
)
async def test_an_invalid_kubeconfig_is_reported(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    assert (await refusal(kubeconfig=path)).startswith(said.format(path=path))


async def test_every_mistake_of_a_configuration_is_reported_with_its_line(kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(HEAD + "jobController:\n  manage: Some\nmanageJobs: 1\n")
    said = await refusal("--config", str(file), kubeconfig=kubeconfig, code=2, lines=2)
    first, second = said.splitlines()
    assert first.startswith(f"{file}:4: jobController.manage: ")
    assert second.startswith(f"{file}:5: manageJobs: unknown field")


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        ("{minVersion: VersionTLS11}", 'tls: "VersionTLS11" is not a minVersion'),
        ("{cipherSuites: [TLS_RSA_WITH_RC4_128_SHA]}", "tls.cipherSuites[0]: "),
        ("{minVersion: VersionTLS13, cipherSuites: [TLS_AES_128_GCM_SHA256]}", "tls.cipherSuites: cannot be chosen"),
    ],
)
async def test_tls_settings_that_cannot_be_used_prevent_the_start(
    kubeconfig: Path, tmp_path: Path, tls: str, said: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(f"{HEAD}tls: {tls}\n")
    assert said in await refusal("--config", str(file), kubeconfig=kubeconfig, code=2)


async def test_a_port_in_use_is_reported(kubeconfig: Path, start: Start) -> None:
    first = await start(kubeconfig)
    port = first.url.rpartition(":")[2]
    said = await refusal("--metrics-port", port, kubeconfig=kubeconfig)
    assert said.startswith(f"cannot serve health, metrics on 127.0.0.1:{port}: ")
    assert first.process.returncode is None


async def test_the_permissions_table_has_exactly_the_watched_collections(plane: ControlPlane) -> None:
    transport = ClusterTransport(lambda: kubeconfigs.load(plane.kubeconfig))
    for chosen in ([JOB_CONTROLLER], [QUEUE], ALL):
        watched = Controllers(transport, loads(HEAD), chosen).runtime.unsynced()
        assert sorted(watched) == sorted(str(need.resource) for need in needs(chosen) if set(READ) <= set(need.verbs))
    await transport.close()


async def test_each_missing_right_is_named(
    plane: ControlPlane, api: RestClient, namespace: str, tmp_path: Path
) -> None:
    """Every row of the table in turn; with all rights nothing is missing."""

    async def says(missing: tuple[str, str] | None) -> None:
        allowed = rules(ALL) if missing is None else without(*missing)
        who = await account(api, namespace, allowed)
        token, _ = await who.token()
        file = write_kubeconfig(tmp_path / who.name, plane.url, {"token": token}, plane)
        transport = ClusterTransport(lambda: kubeconfigs.load(file))
        expected = f"missing permissions in all namespaces: {' '.join(missing)}; " if missing else ""
        said = "?"

        async def as_expected() -> bool:
            """The server learns of a new role a moment after it is created."""
            nonlocal said
            try:
                await preflight.check(transport, plane.url, ALL)
                said = ""
            except preflight.CannotStart as error:
                said = re.sub(r"(\w+)\.[a-z0-9.-]+(?=[/;])", r"\1", str(error))
            return said.startswith(expected) if expected else not said

        try:
            await until(as_expected, f"{missing} is missed; it says")
        finally:
            await transport.close()

    everything = [(verb, need.name) for need, verb in each_verb(needs(ALL))]
    for missing in (None, *everything):
        await says(missing)
