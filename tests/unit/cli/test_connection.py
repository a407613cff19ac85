"""Which cluster a command connects to, and its messages if that fails."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from queue_manager.api.api_resources import JOBS
from queue_manager.cli import connection, up, up_address
from queue_manager.cli.connection import connect, find_kubeconfig
from queue_manager.cli.exit_codes import EXIT_ERROR, EXIT_NEVER, CommandRefused
from queue_manager.cli.main import main
from queue_manager.configuration import KueueConfig
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.transport_protocol import ApiError, Response
from queue_manager.local.local_cluster import ClusterOptions, LocalCluster
from queue_manager.local.storage.data_directory import LOCK

HINT = "-n NAMESPACE reads that namespace only"
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("KUBECONFIG", "SLUICE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def put(path: Path, text: str = KUBECONFIG) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_kubeconfig_precedence_is_flag_environment_own_cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = put(home / ".kube" / "config")
    assert find_kubeconfig(None) == kubectl
    own = put(home / ".sluice" / "kubeconfig")
    assert find_kubeconfig(None) == own
    elsewhere = put(home / "data" / "kubeconfig")
    monkeypatch.setenv("SLUICE_DATA_DIR", str(home / "data"))
    assert find_kubeconfig(None) == elsewhere
    second = put(home / "second")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join((str(home / "first"), "", str(second))))
    assert find_kubeconfig(None) == second
    chosen = put(home / "chosen")
    assert find_kubeconfig(str(chosen)) == chosen


def test_a_named_file_that_is_missing_is_not_replaced_by_another(home: Path) -> None:
    put(home / ".kube" / "config")
    with pytest.raises(CommandRefused, match="none-such"):
        find_kubeconfig(str(home / "none-such"))


def test_without_any_kubeconfig_the_searched_paths_are_named() -> None:
    with pytest.raises(CommandRefused, match="sluice up") as refused:
        find_kubeconfig(None)
    assert ".sluice/kubeconfig" in str(refused.value)
    assert ".kube/config" in str(refused.value)


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A server without objects that allows one namespace only; yields its URL and the requested paths."""
    paths: list[str] = []

    class Nothing(BaseHTTPRequestHandler):
        def answer(self) -> None:
            paths.append(self.path)
            everywhere = "/namespaces/" not in self.path
            status, reason, message = (403, "Forbidden", "no right") if everywhere else (404, "NotFound", "not found")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps({"kind": "Status", "reason": reason, "message": message}).encode())

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}", paths
        server.shutdown()


@pytest.mark.parametrize("named", ["", "-n theirs"])
@pytest.mark.parametrize(
    "command",
    [
        "show x",
        "hold x",
        "release x",
        "drain x",
        "deactivate x",
        "reactivate x",
        "reactivate --all -q x",
        "submit -f {}",
    ],
)
def test_the_default_namespace_is_that_of_the_context(
    home: Path, asked: tuple[str, list[str]], command: str, named: str
) -> None:
    """As with kubectl."""
    url, paths = asked
    text = KUBECONFIG.replace("http://127.0.0.1:1", url).replace("{cluster: c}", "{cluster: c, namespace: mine}", 1)
    job = put(home / "job", "{apiVersion: batch/v1, kind: Job, metadata: {name: x}}")
    main([*command.format(job).split(), *named.split(), "--kubeconfig", str(put(home / "config", text))])
    assert f"/namespaces/{'theirs' if named else 'mine'}/" in paths[0]
    assert not any("/namespaces/default/" in path for path in paths)


@pytest.mark.parametrize("command", ["ps -A", "deactivated --all-namespaces"])
def test_a_user_without_rights_in_all_namespaces_gets_a_hint(
    home: Path, asked: tuple[str, list[str]], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(home / "config", KUBECONFIG.replace("http://127.0.0.1:1", asked[0]))
    assert main([*command.split(), "--kubeconfig", str(path)]) == EXIT_ERROR
    assert capsys.readouterr().err == f"sluice {command.split()[0]}: 403 Forbidden: no right; {HINT}\n"
    one = command.split()[0]
    main([one, "-n", "mine", "--kubeconfig", str(path)])
    assert HINT not in capsys.readouterr().err


async def test_an_unreachable_cluster_is_a_message_without_traceback(home: Path) -> None:
    put(home / "serving.pem", "")
    path = put(home / "config")
    with pytest.raises(CommandRefused) as refused:
        async with connect(str(path), None) as client:
            await client.list(JOBS)
    assert str(refused.value) == (
        f"the cluster of {home} does not answer at http://127.0.0.1:1 (connection refused); "
        f"to start it: sluice up --data-dir {home}"
    )
    assert refused.value.code == EXIT_ERROR


@pytest.fixture
def locked(home: Path) -> Iterator[Path]:
    """The kubeconfig of a cluster whose process, this one, has locked the data directory and does not serve yet."""
    put(home / "serving.pem", "")
    with put(home / LOCK, f"{os.getpid()}\n").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield put(home / "config")


async def test_a_cluster_that_starts_is_waited_for(locked: Path, asked: tuple[str, list[str]]) -> None:
    """Its address is in the kubeconfig when it serves."""
    serves = asyncio.get_running_loop().call_later(0.3, put, locked, KUBECONFIG.replace("http://127.0.0.1:1", asked[0]))
    with pytest.raises(CommandRefused, match="403 Forbidden: no right"):
        async with connect(str(locked), None) as client:
            await client.list(JOBS)
    assert serves.when() < asyncio.get_running_loop().time()
    assert asked[1] == ["/apis/batch/v1/jobs?limit=500"]


async def test_a_start_that_takes_too_long_is_not_waited_for(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "START_SECONDS", 0.3)
    with pytest.raises(CommandRefused, match="to start it: sluice up"):
        async with connect(str(locked), None) as client:
            await client.list(JOBS)


async def test_a_cluster_that_has_answered_is_not_taken_for_one_that_starts(
    locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that follow Jobs repeat their reads themselves, and report that."""

    async def refuse_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.close()
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(refuse_once, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    served = KUBECONFIG.replace("http://127.0.0.1:1", f"http://{host}:{port}")
    monkeypatch.setattr(connection, "START_POLL_SECONDS", 600.0)

    async def list_twice() -> None:
        async with asyncio.timeout(60), connect(str(put(locked, served)), None) as client:
            with pytest.raises(ApiError):
                await client.list(JOBS)
            await client.list(JOBS)

    with pytest.raises(CommandRefused, match="connection refused"):
        await list_twice()


@pytest.mark.parametrize("files", [{}, {LOCK: f"{os.getpid()}\n"}], ids=["never started", "has ended"])
async def test_a_cluster_that_does_not_run_is_not_waited_for(
    home: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "START_POLL_SECONDS", 600.0)  # which the time limit of the test does not allow
    for name, text in {"serving.pem": "", **files}.items():
        put(home / name, text)
    with pytest.raises(CommandRefused, match="connection refused"):
        async with asyncio.timeout(60), connect(str(put(home / "config")), None) as client:
            await client.list(JOBS)


async def test_the_address_of_an_error_is_the_one_that_was_asked(home: Path) -> None:
    """Not that of a cluster which was started again meanwhile, and whose address is in the file now."""
    path = put(home / "config")

    async def list_jobs() -> None:
        async with connect(str(path), None) as client:
            put(path, KUBECONFIG.replace("127.0.0.1:1", "127.0.0.1:2"))
            await client.list(JOBS)

    with pytest.raises(CommandRefused, match=r"does not answer at http://127\.0\.0\.1:1 \(connection refused\)"):
        await list_jobs()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--why", ""], "--why needs a text; `sluice deactivated --by cause` lists the causes"),
        (["--why", " \n"], "--why needs a text; `sluice deactivated --by cause` lists the causes"),
        (["--why", "x", "-q", ""], "-q needs the name of a queue; `sluice queues` lists them"),
    ],
)
def test_an_empty_text_does_not_select_all_deactivated_jobs(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of a shell variable that is not set."""
    assert main(["reactivate", *arguments]) == EXIT_NEVER
    assert capsys.readouterr() == ("", f"sluice reactivate: {said}\n")


async def test_the_default_data_directory_is_not_named_in_the_command(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_DATA_DIR", str(home))
    put(home / "serving.pem", "")
    with pytest.raises(CommandRefused, match=r"to start it: sluice up$"):
        async with connect(str(put(home / "config")), None) as client:
            await client.list(JOBS)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("http://127.0.0.1:1", "connection refused"),
        ("http://localhost:1", "connection refused"),
        ("http://no-such-host.invalid", "no address is known for this name"),
    ],
)
async def test_a_cluster_that_does_not_answer_is_named_with_address_and_cause(
    home: Path, server: str, why: str
) -> None:
    path = put(home / "config", KUBECONFIG.replace("http://127.0.0.1:1", server))
    with pytest.raises(CommandRefused) as refused:
        async with connect(str(path), None) as client:
            await client.list(JOBS)
    assert str(refused.value) == (
        f"the cluster of {path} does not answer at {server} ({why}): it is down, or the address is wrong"
    )


@pytest.mark.parametrize(
    ("server", "user", "says"),
    [
        ("https://127.0.0.1:1", "{token: t}", "does not answer at https://127.0.0.1:1 (connection refused)"),
        (
            "http://127.0.0.1:1",
            "{exec: {command: no-such, apiVersion: v}}",
            "the user of context 'c': no-such: No such",
        ),
        ("http://127.0.0.1:1", "{tokenFile: /no/such}", "/no/such: No such file or directory"),
    ],
)
async def test_sluice_up_is_not_suggested_where_it_cannot_help(home: Path, server: str, user: str, says: str) -> None:
    text = KUBECONFIG.replace("http://127.0.0.1:1", server).replace("{cluster: c}", "{cluster: c, user: u}")
    with pytest.raises(CommandRefused) as refused:
        async with connect(str(put(home / "config", f"{text}users: [{{name: u, user: {user}}}]\n")), None) as client:
            await client.list(JOBS)
    assert says in str(refused.value)
    assert "sluice up" not in str(refused.value)


async def test_a_timeout_and_a_refused_connection_have_different_messages(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timeout error has no text of its own."""
    put(home / "serving.pem", "")
    path = put(home / "config")

    async def wait(*_: object) -> Response:
        raise TimeoutError

    monkeypatch.setattr(HttpTransport, "request", wait)
    with pytest.raises(CommandRefused, match=r"\(timed out\); to start it: sluice up"):
        async with connect(str(path), None) as client:
            await client.list(JOBS)


async def test_an_output_error_is_not_reported_as_a_connection_error(home: Path) -> None:
    with pytest.raises(BrokenPipeError):
        async with connect(str(put(home / "config")), None):
            raise BrokenPipeError


@pytest.mark.parametrize("text", ["no: kubeconfig", "[", KUBECONFIG.replace("current-context: c", "")])
async def test_an_invalid_kubeconfig_is_named_once(home: Path, text: str) -> None:
    path = put(home / "config", text)
    with pytest.raises(CommandRefused) as refused:
        async with connect(str(path), None):
            pass
    assert str(refused.value).count(str(path)) == 1


async def test_rejected_credentials_have_a_message_of_their_own(home: Path) -> None:
    """A real server answers only `Unauthorized`, for an expired token as for a wrong one."""
    path = put(home / "config")
    with pytest.raises(CommandRefused) as refused:
        async with connect(str(path), None):
            raise ApiError(401, "Unauthorized", "Unauthorized")
    assert str(refused.value) == f"the cluster of {path} rejects the credentials (401): log in again"
    assert refused.value.code == EXIT_ERROR


async def test_an_unknown_context_is_refused_by_name(home: Path) -> None:
    with pytest.raises(CommandRefused, match="other"):
        async with connect(str(put(home / "config")), "other"):
            pass


def test_the_error_for_a_user_without_name_and_home_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with an arbitrary user id."""
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(CommandRefused, match="set HOME"):
        find_kubeconfig(None)
    with pytest.raises(CommandRefused, match="~nobody-of-this-name"):
        up_address.expanded("~nobody-of-this-name/data")
    assert up.user() == str(os.getuid())


def test_the_commands_that_up_prints_are_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = LocalCluster(ClusterOptions(data_dir=tmp_path / "my home"), KueueConfig())
    up.print_next_steps(cluster, 1.0, None)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "KUBECONFIG" in line)
    assert shlex.split(line) == ["export", f"KUBECONFIG={tmp_path / 'my home' / 'kubeconfig'}"]


def test_a_background_cluster_names_the_command_that_stops_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its log is read later: there is no other terminal, and Ctrl-C does not reach it."""
    cluster = LocalCluster(ClusterOptions(data_dir=tmp_path), KueueConfig())
    up.print_next_steps(cluster, 1.0, None, in_background=True)
    said = capsys.readouterr().out
    assert "Ctrl-C" not in said
    assert "terminal" not in said
    assert f"sluice down --data-dir {tmp_path}" in said


def test_a_running_cluster_is_named_without_its_token(home: Path) -> None:
    assert up_address.how_to_reach(home) == ""
    put(home / "kubeconfig", KUBECONFIG.replace("127.0.0.1:1", "user:secret@127.0.0.1:1/secret"))
    assert up_address.how_to_reach(home) == f", which serves http://127.0.0.1:1 (export KUBECONFIG={home}/kubeconfig)"


async def test_missing_crds_are_reported_with_the_command_that_installs_them(
    home: Path,
) -> None:
    """A real server answers with this text for a path that it does not serve."""
    path = put(home / "config")
    with pytest.raises(CommandRefused) as refused:
        async with connect(str(path), None):
            raise ApiError.of(404, b"404 page not found\n")
    said = (
        f"the cluster of {path} does not serve the queue's kinds; to install them: "
        "sluice install | kubectl apply --server-side -f -"
    )
    assert str(refused.value) == said


async def test_a_missing_object_is_not_reported_as_missing_crds(home: Path) -> None:
    with pytest.raises(CommandRefused, match="404 NotFound: no such"):
        async with connect(str(put(home / "config")), None):
            raise ApiError.of(404, b'{"reason": "NotFound", "message": "no such"}')


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("/dev/null")])
def test_a_data_directory_that_is_a_file_is_reported(
    tmp_path: Path, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "file")
    assert main(["up", "--data-dir", str(tmp_path / "file")]) == EXIT_NEVER
    assert capsys.readouterr().err == f"sluice up: --data-dir {tmp_path}/file: not a directory\n"


def test_an_empty_standard_input_is_not_a_valid_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of `kubectl get cm WRONG -o yaml | sluice check-config -`."""
    for text in ("", " \n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert main(["check-config", "-"]) == EXIT_NEVER
        assert capsys.readouterr() == ("", "sluice check-config: <stdin>: is empty\n")
