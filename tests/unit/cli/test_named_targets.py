"""Names of Jobs and queues on the command line."""

from __future__ import annotations

import re

import pytest

from job_controller.model import Key
from queue_manager.api.api_resources import NAMESPACES
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.cli.named_targets import check_local_queue, check_namespace, find, key_of, queue_of
from queue_manager.cli.queue_choice import choose_queue
from queue_manager.engine.rest_client import RestClient
from queue_manager.visibility.similar_names import did_you_mean, similar_names
from tests.unit.cli.test_submit import client

__all__ = ["client"]  # a fixture


@pytest.mark.parametrize("name", ["", "default/", "/x", "/", "a/b/c"])
def test_an_invalid_job_name_is_refused_without_a_request(name: str) -> None:
    with pytest.raises(CommandRefused) as refused:
        key_of(name, "default")
    assert refused.value.code == EXIT_NEVER
    with pytest.raises(CommandRefused):
        queue_of(name, "default")


@pytest.mark.parametrize(("name", "cluster_queue"), [("cq/", False), ("cq/a/b", False), ("", True), ("a/b", True)])
def test_an_invalid_cluster_queue_name_is_refused(name: str, cluster_queue: bool) -> None:
    with pytest.raises(CommandRefused):
        queue_of(name, "default", cluster_queue=cluster_queue)


def test_a_name_without_namespace_is_in_the_given_one() -> None:
    assert (key_of("a", "n"), key_of("m/a", "n")) == (Key("n", "a"), Key("m", "a"))
    assert queue_of("cq/a", "n").key == queue_of("a", "n", cluster_queue=True).key == Key("", "a")


@pytest.mark.parametrize(("home", "typed"), [("n", "a"), ("default", "a -n n"), ("m", "a -n n")])
def test_a_queue_is_printed_with_its_namespace_unless_it_is_the_default(home: str, typed: str) -> None:
    assert queue_of("n/a", "x").argument(home) == typed
    assert queue_of("cq/a", "x").argument(home) == "cq/a"


@pytest.mark.parametrize(
    ("typed", "meant"), [("reserch", ["research"]), ("prime", ["primes"]), ("resn", []), ("nothing", [])]
)
def test_only_similar_names_are_suggested(typed: str, meant: list[str]) -> None:
    assert similar_names(typed, ["primes", "research", "hello"]) == meant


def test_the_question_names_what_may_be_meant() -> None:
    names = ["train", "trial", "hello"]
    assert did_you_mean("helo", names, 1) == "did you mean hello?"
    assert did_you_mean("traim", ["train", "trains"]) == "did you mean train or trains?"
    assert did_you_mean("x", names) == ""


async def test_a_mistyped_namespace_is_named_where_nothing_is_found_in_it(client: RestClient) -> None:
    for name in ("team-a", "team-b"):
        await client.create(NAMESPACES, "", {"metadata": {"name": name}})
    said = "namespace teem-a does not exist; did you mean team-a?"
    with pytest.raises(CommandRefused, match=re.escape(f"no Job j in namespace teem-a; {said}")) as refused:
        await find(client, Key("teem-a", "j"))
    assert refused.value.code == EXIT_NEVER
    with pytest.raises(CommandRefused, match=re.escape(f"q does not exist in namespace teem-a; {said}")):
        await check_local_queue(client, Key("teem-a", "q"))
    with pytest.raises(CommandRefused, match=re.escape(said)):
        await choose_queue(client, "teem-a", None)
    with pytest.raises(CommandRefused, match=re.escape(said)):
        await check_namespace(client, "teem-a")
    await check_namespace(client, "team-a")
    await check_namespace(client, None)


def test_names_that_lists_print_are_taken() -> None:
    """By -o name."""
    assert key_of("job/a", "n") == key_of("job.batch/a", "n") == Key("n", "a")
    assert key_of("job/m/a", "n") == Key("m", "a")
    assert queue_of("localqueue/q", "n") == queue_of("q", "n")
    assert queue_of("clusterqueue/c", "n") == queue_of("cq/c", "n")


@pytest.mark.parametrize("wrong", ["job/", "job/m/", "job/m/a/b", "localqueue/"])
def test_a_kind_without_a_name_is_refused(wrong: str) -> None:
    with pytest.raises(CommandRefused, match="is not a name"):
        queue_of(wrong, "n")
