"""The cache reads its own writes, never goes back in time, and ends up equal to the server."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from job_controller.model import Key, Object, ObjectMeta, Pod
from queue_manager.engine.cache import Cache
from queue_manager.engine.json_codec import revision
from tests.examples import examples


def thing(name: str, uid: str, at: int, **labels: str) -> Object:
    return Object(metadata=ObjectMeta(name=name, namespace="n", uid=uid, resource_version=str(at), labels=labels))


def a_cache(*objects: Object, progress: int = 10) -> Cache[Object]:
    cache: Cache[Object] = Cache("things")
    cache.reset(objects, progress)
    return cache


def test_a_list_is_added_in_the_order_of_creation() -> None:
    early, late = (datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (1, 2))
    listed = [("a", late, 7), ("b", early, 6), ("c", early, 5)]
    added: list[str] = []
    cache: Cache[Object] = Cache("things")
    cache.subscribe(lambda old, new: added.append(new.metadata.name if new is not None else "none"))
    metas = [
        ObjectMeta(name=name, namespace="n", uid=name, resource_version=str(at), creation_timestamp=created)
        for name, created, at in listed
    ]
    cache.reset([Object(metadata=meta) for meta in metas], 10)
    assert added == ["c", "b", "a"]


def test_a_newer_answer_replaces_and_an_older_one_does_not() -> None:
    cache = a_cache(thing("a", "u", 5))
    newer, older = thing("a", "u", 12), thing("a", "u", 11)
    cache.apply_response(newer)
    cache.apply_response(older)
    assert cache.get("n", "a") is newer


def test_a_late_answer_about_an_object_the_watch_saw_deleted_is_ignored() -> None:
    cache = a_cache()
    cache.observe(thing("a", "u", 11))
    cache.observe_deleted(thing("a", "u", 12))
    cache.apply_response(thing("a", "u", 11))
    assert len(cache) == 0


def test_events_under_way_do_not_bring_back_what_we_deleted() -> None:
    cache = a_cache(thing("a", "u", 5))
    cache.forget(thing("a", "u", 5))
    cache.observe(thing("a", "u", 11))
    assert cache.get("n", "a") is None


def test_a_reused_name_is_a_deletion_and_an_addition() -> None:
    old, new = thing("a", "u1", 5), thing("a", "u2", 12)
    cache = a_cache(old)
    notified: list[tuple[Object | None, Object | None]] = []
    cache.subscribe(lambda before, after: notified.append((before, after)))
    cache.apply_response(new)
    assert notified == [(None, old), (old, None), (None, new)]
    assert cache.by_uid("u1") is None


def test_a_list_deletes_what_it_does_not_contain() -> None:
    cache = a_cache(thing("a", "u", 5))
    notified: list[tuple[Object | None, Object | None]] = []
    cache.subscribe(lambda before, after: notified.append((before, after)))
    cache.reset([thing("b", "v", 11)], 12)
    assert [(bool(before), bool(after)) for before, after in notified] == [(False, True), (True, False), (False, True)]
    assert [obj.metadata.name for obj in cache] == ["b"]


def test_a_list_keeps_what_we_wrote_after_it_was_taken() -> None:
    cache = a_cache()
    cache.apply_response(thing("a", "u", 15))
    cache.reset([], 12)
    assert cache.get("n", "a") is not None


def test_a_list_keeps_the_last_readable_state_of_an_unreadable_object() -> None:
    cache = a_cache(thing("a", "u", 5))
    cache.reset([], 12, {Key("n", "a")})
    assert cache.get("n", "a") is not None


def test_a_list_from_a_restored_server_replaces_everything() -> None:
    cache = a_cache(thing("a", "u", 50), thing("b", "v", 60), progress=100)
    restored = thing("a", "u", 20)
    cache.reset([restored], 30)
    assert cache.values() == [restored]


def test_a_restored_server_has_objects_again_that_were_deleted() -> None:
    cache = a_cache(thing("a", "u", 5))
    cache.forget(thing("a", "u", 5))
    cache.reset([thing("a", "u", 5)], 8)
    assert cache.get("n", "a") is not None


def test_a_list_older_than_an_object_does_not_delete_it() -> None:
    """We created and deleted it after the list was taken: the watch has yet to deliver both."""
    made = thing("a", "u", 15)
    for forget in (lambda cache: cache.forget(made), lambda cache: cache.forget_uid("u")):
        cache = a_cache()
        cache.apply_response(made)
        forget(cache)
        cache.reset([], 12)
        cache.observe(made)
        assert cache.get("n", "a") is None


def test_an_object_deleted_before_it_was_seen_stays_out() -> None:
    cache = a_cache()
    cache.forget_uid("u")
    cache.reset([], 12)
    cache.observe(thing("a", "u", 13))
    assert cache.get("n", "a") is None


def test_a_list_deletes_what_has_its_own_revision() -> None:
    cache = a_cache(thing("a", "u", 5))
    cache.apply_response(thing("a", "u", 12))
    cache.reset([], 12)
    assert len(cache) == 0


def test_every_watch_event_advances_the_progress() -> None:
    cache = a_cache()
    cache.observe(thing("a", "u", 11))
    assert cache.progress == 11
    cache.observe_deleted(thing("a", "u", 12))
    assert cache.progress == 12
    cache.advance(20)
    cache.observe(thing("b", "v", 15))
    cache.observe_deleted(thing("b", "v", 16))
    cache.advance(17)
    assert cache.progress == 20


def test_an_object_that_left_the_selector_may_come_back() -> None:
    cache = a_cache(thing("a", "u", 5))
    cache.forget_uid("u", 12)
    cache.observe(thing("a", "u", 11))
    assert cache.get("n", "a") is None
    cache.observe_deleted(thing("a", "u", 12))
    cache.observe(thing("a", "u", 13))
    assert cache.get("n", "a") is not None


def test_an_index_follows_changes() -> None:
    cache: Cache[Object] = Cache("things")
    cache.index("team", lambda obj: obj.metadata.labels.values())
    cache.reset([thing("a", "u", 1, x="red"), thing("b", "v", 2, x="red", y="blue")], 10)
    assert [obj.metadata.name for obj in cache.lookup("team", "red")] == ["a", "b"]
    cache.observe(thing("a", "u", 11, x="blue"))
    assert [obj.metadata.name for obj in cache.lookup("team", "red")] == ["b"]
    assert [obj.metadata.name for obj in cache.lookup("team", "blue")] == ["b", "a"]
    assert cache.has("team", "red")
    cache.observe_deleted(thing("b", "v", 12))
    assert cache.lookup("team", "red") == []
    assert not cache.has("team", "red")


def test_an_index_added_later_contains_existing_objects() -> None:
    cache = a_cache(thing("a", "u", 5, x="red"))
    cache.index("team", lambda obj: obj.metadata.labels.values())
    assert len(cache.lookup("team", "red")) == 1


def test_a_failing_subscriber_does_not_stop_the_others() -> None:
    cache = a_cache()
    notified: list[str] = []

    def fails(old: Object | None, new: Object | None) -> None:
        raise RuntimeError("bug")

    cache.subscribe(fails)
    cache.subscribe(lambda old, new: notified.append("heard"))
    cache.apply_response(thing("a", "u", 11))
    assert notified == ["heard"]


def test_values_do_not_change_while_they_are_iterated() -> None:
    cache = a_cache(thing("a", "u", 1), thing("b", "v", 2))
    for obj in cache:
        cache.forget(obj)
    assert len(cache) == 0


class ServerAndCache(RuleBasedStateMachine):
    """A server that changes objects; its watch arrives late, responses to writes arrive at any time or never."""

    answers: Bundle[tuple[str, Pod]] = Bundle("answers")
    lists: Bundle[tuple[int, list[Pod]]] = Bundle("lists")
    names = st.sampled_from(["a", "b"])

    def __init__(self) -> None:
        super().__init__()
        self.cache: Cache[Pod] = Cache("pods")
        self.cache.index("uid", lambda pod: [pod.metadata.uid])
        self.revision = 0
        self.uids = 0
        self.truth: dict[str, Pod] = {}
        self.log: list[tuple[int, str, Pod]] = []  # the server's history
        self.highest: dict[str, int] = {}  # uid -> greatest revision the cache has shown
        self.deleted_by_us: set[str] = set()
        self.followed: dict[str, Pod] = {}  # what a subscriber believes
        self.watching = False
        self.wrong: list[str] = []
        self.cache.subscribe(self._follow)

    def _follow(self, old: Pod | None, new: Pod | None) -> None:
        """A cache survives a failing subscriber, so errors are recorded here and raised by an invariant."""
        if old is None and new is not None and new.metadata.name in self.followed:
            self.wrong.append("added twice")
        if old is not None and self.followed.pop(old.metadata.name, None) is not old:
            self.wrong.append("notified of an old state that was never the new one")
        if old is not None and new is None and not self._was_deleted(old):
            self.wrong.append("dropped an object that is there")
        if new is not None:
            self.followed[new.metadata.name] = new
            uid = new.metadata.uid
            if revision(new) <= self.highest.get(uid, 0):
                self.wrong.append("went back to an older state")
            if uid in self.deleted_by_us:
                self.wrong.append("came back after we deleted it")
            self.highest[uid] = revision(new)

    def _was_deleted(self, pod: Pod) -> bool:
        uid = pod.metadata.uid
        return any(kind == "DELETED" and gone.metadata.uid == uid for _, kind, gone in self.log)

    def _write(self, name: str, uid: str) -> Pod:
        self.revision += 1
        meta = ObjectMeta(name=name, uid=uid, resource_version=str(self.revision))
        self.truth[name] = Pod(metadata=meta)
        return self.truth[name]

    @rule(target=answers, name=names)
    def write(self, name: str) -> tuple[str, Pod]:
        old = self.truth.get(name)
        if old is None:
            self.uids += 1
        pod = self._write(name, old.metadata.uid if old else f"u{self.uids}")
        self.log.append((self.revision, "MODIFIED" if old else "ADDED", pod))
        return "learn", pod

    @rule(target=answers, name=names)
    def delete(self, name: str) -> object:
        if name not in self.truth:
            return multiple()
        pod = self._write(name, self.truth[name].metadata.uid)
        del self.truth[name]
        self.log.append((self.revision, "DELETED", pod))
        return "forget", pod

    @rule(answer=consumes(answers))
    def answer(self, answer: tuple[str, Pod]) -> None:
        kind, pod = answer
        if kind == "forget":
            self.cache.forget(pod)
            self.deleted_by_us.add(pod.metadata.uid)
            assert self.cache.by_uid(pod.metadata.uid) is None
        else:
            self.cache.apply_response(pod)
            shown = self.cache.get("", pod.metadata.name)
            # Read your own writes: this state, a newer one, or the deletion.
            gone = self._was_deleted(pod)
            assert gone or (shown is not None and revision(shown) >= revision(pod))

    @precondition(lambda self: self.watching)
    @rule()
    def watch_event(self) -> None:
        for at, kind, pod in self.log:
            if at > self.cache.progress:
                (self.cache.observe_deleted if kind == "DELETED" else self.cache.observe)(pod)
                return

    @precondition(lambda self: self.watching)
    @rule()
    def watch_repeats_an_event(self) -> None:
        for at, kind, pod in reversed(self.log):
            if at <= self.cache.progress:
                (self.cache.observe_deleted if kind == "DELETED" else self.cache.observe)(pod)
                return

    @rule(target=lists)
    def ask_for_a_list(self) -> tuple[int, list[Pod]]:
        return self.revision, list(self.truth.values())

    @rule(listed=consumes(lists))
    def relist(self, listed: tuple[int, list[Pod]]) -> None:
        at, pods = listed
        if at < self.cache.progress:
            return  # no server gives a list older than what its watch has delivered
        self.cache.reset(pods, at)
        self.watching = True

    @invariant()
    def nothing_went_wrong(self) -> None:
        assert self.wrong == []

    @invariant()
    def subscribers_and_indexes_know_what_the_cache_knows(self) -> None:
        assert sorted(self.followed) == sorted(pod.metadata.name for pod in self.cache.values())
        for pod in self.cache.values():
            assert self.cache.lookup("uid", pod.metadata.uid) == [pod]
            assert self.cache.by_uid(pod.metadata.uid) is pod

    def teardown(self) -> None:
        if not self.watching:
            self.cache.reset(list(self.truth.values()), self.revision)
        for at, kind, pod in self.log:
            if at > self.cache.progress:
                (self.cache.observe_deleted if kind == "DELETED" else self.cache.observe)(pod)
        assert {pod.metadata.name: pod for pod in self.cache} == self.truth


TestServerAndCache = ServerAndCache.TestCase
TestServerAndCache.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
