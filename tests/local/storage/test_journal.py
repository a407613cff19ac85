"""Persistence: nothing that was answered is lost, and nothing is visible before it is committed."""

from __future__ import annotations

import asyncio
import grp
import multiprocessing
import os
import pwd
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, CRDS, PODS
from queue_manager.engine.clock import SystemClock
from queue_manager.local.storage.journal import DataDirectoryInUse, Journal
from queue_manager.local.storage.store import JournalRow, JournalUnusable, Store
from tests.local.server.world import World, config_map, path, pod
from tests.process_figures import waited_for_core_seconds


def crash(journal: Journal) -> None:
    """What the kernel does when a process is killed: the lock is released, nothing is flushed."""
    os.close(journal._lock)
    journal._lock = -1


async def test_objects_and_revision_survive_a_crash(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    world = World(journal)
    kept = await world.create(PODS, pod("kept", labels={"a": "b"}))
    await world.create(PODS, pod("dropped"))
    await world.ask("DELETE", path(PODS, "dropped"))
    revision = world.store.revision
    crash(journal)
    again = World(Journal.open(tmp_path))
    assert again.store.revision == revision
    assert await again.get(PODS, "kept") == kept
    assert (await again.ask("GET", path(PODS, "dropped"))).status == 404
    assert (await again.create(PODS, pod("next")))["metadata"]["resourceVersion"] == str(revision + 1)
    again.store.close()


async def test_loaded_objects_can_be_selected_by_labels_and_fields(tmp_path: Path) -> None:
    world = World(Journal.open(tmp_path))
    for name in ("b", "a", "c"):
        await world.create(PODS, pod(name, labels={"name": name}))
    world.store.close()
    again = World(Journal.open(tmp_path))
    query = {"labelSelector": "name in (a, b)", "fieldSelector": "status.phase=Pending"}
    items = (await again.ask("GET", PODS.path(), **query)).body["items"]
    assert [item["metadata"]["name"] for item in items] == ["a", "b"]
    again.store.close()


async def test_uids_given_after_a_restart_are_greater(tmp_path: Path) -> None:
    world = World(Journal.open(tmp_path))
    before = (await world.create(PODS, pod("a")))["metadata"]["uid"]
    world.store.close()
    again = World(Journal.open(tmp_path))
    assert (await again.create(PODS, pod("b")))["metadata"]["uid"] > before
    again.store.close()


async def test_a_watch_from_before_the_restart_is_410(tmp_path: Path) -> None:
    world = World(Journal.open(tmp_path))
    await world.create(PODS, pod("a"))
    world.store.close()
    again = World(Journal.open(tmp_path))
    event = await (await again.watch(PODS, resourceVersion=1)).next()
    assert event["object"]["code"] == 410
    watch = await again.watch(PODS, resourceVersion=again.store.revision)
    await again.create(PODS, pod("b"))
    assert await watch.seen(1) == [("ADDED", "b")]
    again.store.close()


async def test_definitions_are_served_again_after_a_restart(tmp_path: Path) -> None:
    world = World(Journal.open(tmp_path))
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c.x"}}
    await world.create(CRDS, crd)
    world.store.close()
    again = World(Journal.open(tmp_path))
    assert again.registry.installed == ["c.x"]
    again.store.close()


class ObservedJournal:
    """A journal that records its commits and can be made to fail."""

    def __init__(self) -> None:
        self.commits: list[list[str]] = []
        self.broken = False

    def load(self) -> tuple[int, Iterable[JournalRow]]:
        return 0, []

    def commit(self, revision: int, rows: list[JournalRow]) -> None:
        if self.broken:
            raise OSError("no space left on device")
        self.commits.append([row.key for row in rows])

    def close(self) -> None: ...


async def test_writes_of_one_tick_are_committed_together(tmp_path: Path) -> None:
    journal = ObservedJournal()
    world = World(journal)
    await world.store.settled()
    journal.commits.clear()
    await asyncio.gather(*(world.create(CONFIG_MAPS, config_map(name)) for name in "abc"))
    assert journal.commits == [["default/a", "default/b", "default/c"]]


async def test_responses_and_events_are_sent_after_the_commit() -> None:
    journal = ObservedJournal()
    world = World(journal)
    await world.store.settled()
    journal.commits.clear()
    watch = await world.watch(CONFIG_MAPS, resourceVersion=world.store.revision)
    seen: list[int] = []
    world.store.subscribe(lambda change: seen.append(len(journal.commits)))
    creating = asyncio.create_task(world.create(CONFIG_MAPS, config_map("a")))
    reading = asyncio.create_task(watch.next())
    while not journal.commits:
        assert not creating.done()
        assert not reading.done()
        assert not seen
        await asyncio.sleep(0)
    await creating
    assert (await reading)["type"] == "ADDED"
    assert seen == [1]


async def test_a_read_waits_for_the_writes_it_has_seen() -> None:
    journal = ObservedJournal()
    world = World(journal)
    await world.store.settled()
    journal.commits.clear()
    creating = asyncio.create_task(world.create(CONFIG_MAPS, config_map("a")))
    while world.store.get("configmaps", "default", "a") is None:
        await asyncio.sleep(0)
    assert not journal.commits
    await world.get(CONFIG_MAPS, "a")
    assert journal.commits
    await creating


async def test_a_failed_commit_is_an_error_and_changes_nothing() -> None:
    journal = ObservedJournal()
    world = World(journal)
    await world.create(CONFIG_MAPS, config_map("old"))
    watch = await world.watch(CONFIG_MAPS, resourceVersion=world.store.revision)
    journal.broken = True
    target = CONFIG_MAPS.path("default")
    answers = await asyncio.gather(
        world.ask("POST", target, config_map("new")),
        world.ask("DELETE", path(CONFIG_MAPS, "old")),
    )
    assert [(answer.status, answer.reason) for answer in answers] == [(500, "InternalError")] * 2
    assert "no space left on device" in answers[0].message
    journal.broken = False
    assert (await world.ask("GET", path(CONFIG_MAPS, "new"))).status == 404
    assert (await world.ask("GET", path(CONFIG_MAPS, "old"))).status == 200
    assert await watch.nothing()
    assert (await world.ask("POST", target, config_map("new"))).status == 201


async def test_a_list_after_a_failed_commit_has_no_revision_that_is_used_again() -> None:
    journal = ObservedJournal()
    world = World(journal)
    created = await world.create(CONFIG_MAPS, config_map("a"))
    journal.broken = True
    assert (await world.ask("POST", CONFIG_MAPS.path("default"), config_map("b"))).status == 500
    listed = await world.ask("GET", CONFIG_MAPS.path("default"))
    assert listed.body["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_an_object_whose_commit_failed_does_not_occupy_its_name() -> None:
    journal = ObservedJournal()
    world = World(journal)
    await world.store.settled()
    journal.broken = True
    target = CONFIG_MAPS.path("default")
    answers = await asyncio.gather(*(world.ask("POST", target, config_map("new")) for _ in range(2)))
    assert [answer.status for answer in answers] == [500, 500]


async def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    with pytest.raises(DataDirectoryInUse) as refused:
        Journal.open(tmp_path)
    assert refused.value.pid == os.getpid()
    assert str(os.getpid()) in str(refused.value)
    journal.close()
    Journal.open(tmp_path).close()


def _hold(path: str, pipe: Connection) -> None:
    journal = Journal.open(path)
    journal.commit(7, [JournalRow("pods", "a/b", 7, b'{"metadata":{"name":"b","namespace":"a"}}')])
    pipe.send("committed")
    pipe.recv()  # never comes


def test_kill_9_releases_the_lock_and_loses_no_commit(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(str(tmp_path), theirs))
    process.start()
    assert ours.poll(30)
    ours.recv()
    with pytest.raises(DataDirectoryInUse) as refused:
        Journal.open(tmp_path)
    assert refused.value.pid == process.pid
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    journal = Journal.open(tmp_path)
    revision, rows = journal.load()
    assert (revision, [row.key for row in rows]) == (7, ["a/b"])
    journal.close()


@pytest.mark.parametrize("anew", [False, True])
async def test_writes_fail_once_the_directory_was_removed(tmp_path: Path, anew: bool) -> None:
    """Also if another cluster uses the path: SQLite would go on writing to a file without a name."""
    world = World(Journal.open(tmp_path / "data"))
    shutil.rmtree(tmp_path / "data")
    other = Journal.open(tmp_path / "data") if anew else None
    answer = await world.ask("POST", PODS.path("default"), pod("a"))
    assert (answer.status, answer.body["message"]) == (
        500,
        "Internal error occurred: "
        f"{tmp_path / 'data'} was removed while a cluster runs from it: stop it and start it again",
    )
    assert len((await world.ask("GET", PODS.path())).body["items"]) == 0
    world.store.close()
    if other is not None:
        other.close()


def test_a_file_that_is_no_database_is_refused_and_the_lock_is_free(tmp_path: Path) -> None:
    (tmp_path / "objects.db").write_bytes(b"this is not a database, not even a small one" * 100)
    for _ in range(2):
        with pytest.raises(JournalUnusable):
            Journal.open(tmp_path)


def test_a_damaged_page_is_reported_when_it_is_read(tmp_path: Path) -> None:
    """Opening reads only the first pages."""
    journal = filled(tmp_path)
    journal.close()
    file = tmp_path / "objects.db"
    size = file.stat().st_size
    with file.open("r+b") as database:
        database.seek(size - 40_000)
        database.write(b"\xff" * 20_000)
    with pytest.raises(JournalUnusable, match=r"objects\.db: "):
        reopened(tmp_path)


def test_a_damaged_index_is_reported_at_the_start(tmp_path: Path) -> None:
    """All objects can be read without it, but hardly one can be written."""
    filled(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "objects.db")
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE type = 'index'").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with (tmp_path / "objects.db").open("r+b") as database:
        database.seek((page - 1) * size)
        database.write(b"\xff" * size)
    with pytest.raises(JournalUnusable, match=r"objects\.db"):
        reopened(tmp_path)


@pytest.mark.parametrize("left", [0, 1])
def test_a_database_that_was_emptied_is_not_taken_for_a_new_one(tmp_path: Path, left: int) -> None:
    """Otherwise all Jobs would be lost without a message, and their processes ended."""
    filled(tmp_path).close()
    (tmp_path / "objects.db-wal").write_bytes(b"log")
    os.truncate(tmp_path / "objects.db", left)
    with pytest.raises(JournalUnusable, match="empty"):
        Journal.open(tmp_path)
    assert (tmp_path / "objects.db-wal").exists()


def test_a_first_start_that_was_killed_while_it_made_its_database_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "objects.db").touch()
    filled(tmp_path).close()
    reopened(tmp_path)


def test_a_damaged_object_is_reported_with_its_name(tmp_path: Path) -> None:
    filled(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "objects.db")
    connection.execute("UPDATE objects SET data = '{' WHERE key = 'a/7'")
    connection.commit()
    connection.close()
    with pytest.raises(JournalUnusable, match="pods a/7 is damaged on disk"):
        reopened(tmp_path)


def filled(directory: Path) -> Journal:
    journal = Journal.open(directory)
    data = b'{"metadata":{"name":"b"},"x":"' + b"x" * 3000 + b'"}'
    journal.commit(50, [JournalRow("pods", f"a/{n}", n, data) for n in range(1, 50)])
    return journal


def reopened(directory: Path) -> None:
    journal = Journal.open(directory)
    try:
        Store(SystemClock(), random.Random(1), journal)
    finally:
        journal.close()


def test_a_locked_database_is_not_reported_as_damaged(tmp_path: Path) -> None:
    """The advice to move it away would be wrong."""
    filled(tmp_path).close()
    other = sqlite3.connect(tmp_path / "objects.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OSError, match="database is locked"):
        reopened(tmp_path)
    other.close()
    reopened(tmp_path)


def test_a_write_to_a_locked_database_fails_soon(tmp_path: Path) -> None:
    """All requests wait for it, so it must not wait for another program's transaction."""
    journal = filled(tmp_path)
    other = sqlite3.connect(tmp_path / "objects.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic() - waited_for_core_seconds(os.getpid())
    with pytest.raises(OSError, match="database is locked"):
        journal.commit(60, [])
    assert time.monotonic() - waited_for_core_seconds(os.getpid()) - began < 4.0
    other.close()
    journal.commit(60, [])
    journal.close()


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    Journal.open(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "objects.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(JournalUnusable, match="newer version"):
        Journal.open(tmp_path)


def test_a_world_writable_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(JournalUnusable, match="by all users: chmod go-w"):
        Journal.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_writable_by_a_group_of_others_is_refused(tmp_path: Path) -> None:
    groups = (
        [65534] if os.geteuid() == 0 else [gid for gid in os.getgroups() if gid != pwd.getpwuid(os.geteuid()).pw_gid]
    )
    if not groups:
        pytest.skip("this user is in no group of others")
    os.chown(tmp_path, -1, groups[0])
    tmp_path.chmod(0o770)
    with pytest.raises(JournalUnusable, match=r"can be written by the group .+: chmod go-w"):
        Journal.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_writable_by_its_owners_private_group_is_accepted(tmp_path: Path) -> None:
    """`mkdir` makes such directories where the umask is 002."""
    user = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(user.pw_gid)
    if group.gr_name != user.pw_name or set(group.gr_mem) - {user.pw_name}:
        pytest.skip("this user has no private group")
    os.chown(tmp_path, -1, group.gr_gid)
    tmp_path.chmod(0o775)
    Journal.open(tmp_path).close()


@pytest.mark.parametrize("strange", ["", "objects.db", "objects.db-wal", "pods", "serving.pem", "kubeconfig", "lock"])
def test_a_directory_with_files_of_another_user_is_refused(tmp_path: Path, strange: str) -> None:
    """Its Jobs would run as the user who starts the cluster, and the other user may have the server's key."""
    if os.geteuid() != 0:
        tmp_path, strange = Path("/"), ""  # owned by root
    else:
        Journal.open(tmp_path).close()
        (tmp_path / strange).touch()
        os.chown(tmp_path / strange, 65534, 65534)
    with pytest.raises(JournalUnusable, match=f"{tmp_path / strange} belongs to user .*, and its Jobs would run as "):
        Journal.open(tmp_path)


@pytest.mark.parametrize("left", ["pods/0191/main", "objects.db-wal", "kubeconfig", "serving.pem"])
def test_a_removed_database_is_not_recreated(tmp_path: Path, left: str) -> None:
    (tmp_path / left).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / left).touch()
    (tmp_path / "pods").mkdir(exist_ok=True)
    with pytest.raises(JournalUnusable, match=r"objects\.db is missing, but .* restore the database, or remove"):
        Journal.open(tmp_path)
    assert not (tmp_path / "objects.db").exists()
    (tmp_path / "objects.db").touch()
    with pytest.raises(JournalUnusable, match=r"objects\.db is empty, but .* restore the database, or remove"):
        Journal.open(tmp_path)


def test_an_empty_pods_directory_does_not_count_as_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir()
    Journal.open(tmp_path).close()


def test_only_the_owner_may_read_the_data(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    Journal.open(directory).close()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / "objects.db").stat().st_mode & 0o777 == 0o600
