"""What a manager explains to a user of one namespace is what an admin sees, without a name of another namespace.

On the random stores of `stores`. Their namespaces are ns1 and ns2; the name of a LocalQueue ends with that of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import datetime
from random import Random

import msgspec
import pytest
from msgspec import structs

from queue_manager.api.types import Namespace, Workload
from queue_manager.lifecycle.queue_entry import waits
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.visibility.explain_record import Explanation
from queue_manager.visibility.pending_sentences import ANOTHERS
from queue_manager.visibility.released_quota_times import ANOTHERS_JOB
from queue_manager.visibility.scheduler_judgement import ClusterObjects, ClusterState
from queue_manager.visibility.served_explanation import NAMES_NOT_SEEN, concerning, explained_to_namespace
from tests.simulation.cohort_lives import TEAMS, life
from tests.simulation.cohort_play import play
from tests.simulation.stores import crowded_settings, crowded_store, random_settings, store
from tests.simulation.test_explanations import BATCH, LIVES, batches, explained, without_owners
from tests.unit.queueing.builders import T0, cluster_queue, condition, flavor, local_queue, workload

SAME = ("state", "code", "reason", "message", "flavors", "preemptions", "starts_by", "released_by", "kept_for_it")


def served(w: Workload, objects: ClusterObjects, settings: WorkloadSettings, now: datetime = T0) -> Explanation:
    """As the manager computes it: from the objects that share quota with the Workload's ClusterQueue."""
    name = next((q.spec.cluster_queue for q in objects.local_queues if q.metadata.key == w.local_queue), "")
    sharing = frozenset(ClusterState(objects, settings, now).state.relatives(name))
    return explained_to_namespace(None, w, concerning(objects, sharing, settings), settings, now)


def foreign_names(w: Workload, objects: ClusterObjects) -> re.Pattern[str]:
    """A namespace, LocalQueue or Workload of another namespace."""
    other = {"ns1": "ns2", "ns2": "ns1"}[w.metadata.namespace]
    workloads = [each.metadata.name for each in objects.workloads if each.metadata.namespace == other]
    return re.compile(rf"\b({'|'.join([other, f'[abc]{other[-1]}', *workloads])})\b")


def check(found: Explanation, seen_by_admin: Explanation, seen: Counter[str]) -> None:
    """Both say the same; rows about other namespaces are added up."""
    for field in SAME:
        assert getattr(found, field) == getattr(seen_by_admin, field), field
    held = [sum(row.workloads for row in each.holders) for each in (found, seen_by_admin)]
    assert held[0] == held[1]
    places = [each.position for each in (found, seen_by_admin)]
    if places[0] is None or places[1] is None:
        assert places[0] == places[1]
    else:
        counts = [sum(row.workloads for row in place.ahead or ()) for place in places if place]
        assert counts[0] == counts[1]
        assert structs.replace(places[0], ahead=None) == structs.replace(places[1], ahead=None)
    withheld = [row for row in found.holders if not row.namespace]
    assert all(not row.jobs and not row.queue for row in withheld)
    ahead = [row for row in (places[0].ahead if places[0] else None) or () if not row.namespace]
    assert found.not_seen == ([NAMES_NOT_SEEN] if withheld or ahead else [])
    if ANOTHERS not in found.sentence:
        assert (found.sentence, found.next_command) == (seen_by_admin.sentence, seen_by_admin.next_command)
    seen["holders"] += bool(withheld)
    seen["ahead"] += bool(ahead)
    seen["head"] += ANOTHERS in found.sentence
    seen["release"] += ANOTHERS_JOB in found.release
    seen["own names"] += any(row.jobs for row in found.holders)


@pytest.mark.parametrize("batch", batches(1000, often=1))
def test_a_user_of_one_namespace_is_told_all_but_names_of_others(batch: int) -> None:
    seen = Counter[str]()
    for seed in range(batch, batch + BATCH):
        for make, settings_for in ((store, random_settings), (crowded_store, crowded_settings)):
            rng = Random(seed)
            objects = make(rng)
            settings = settings_for(rng)
            for w in filter(waits, objects.workloads):
                found = served(w, objects, settings)
                text = msgspec.json.encode(found).decode()
                leak = foreign_names(w, objects).search(text)
                assert leak is None, (seed, w.metadata.name, leak, text)
                check(found, explained(w, objects, settings), seen)
    assert min(seen[kind] for kind in ("holders", "ahead", "head", "release", "own names")) >= 3, seen


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, LIVES))])
def test_no_name_of_another_namespace_is_served_at_any_time_of_a_life(seed: int) -> None:
    """Each name of a life contains that of its namespace."""
    seen = Counter[str]()
    for state in play(life(seed)).states:
        workloads = [structs.replace(w, metadata=without_owners(w.metadata)) for w in state.objects.workloads]
        for w in filter(waits, workloads):
            found = served(w, replace(state.objects, workloads=workloads), state.settings, state.now)
            [other] = {*TEAMS} - {w.metadata.namespace}
            text = msgspec.json.encode(found).decode()
            assert other not in text, (seed, w.metadata.name, text)
            seen[found.code] += 1
            seen["withheld"] += NAMES_NOT_SEEN in found.not_seen
    assert seen["withheld"] >= 1


def test_with_block_admission_workloads_that_share_no_quota_decide_too() -> None:
    running = [condition(each, "True") for each in ("QuotaReserved", "Admitted")]
    admission = {
        "clusterQueue": "b",
        "podSetAssignments": [{"name": "main", "flavors": {"cpu": "default"}, "count": 1}],
    }
    starting = workload("w1", namespace="ns2", queue="b2", conditions=running, status={"admission": admission})
    waiting = workload("w0", namespace="ns1", queue="a1")
    objects = ClusterObjects(
        workloads=[starting, waiting],
        local_queues=[local_queue("a1", "a", namespace="ns1"), local_queue("b2", "b", namespace="ns2")],
        cluster_queues=[cluster_queue("a"), cluster_queue("b")],
        flavors=[flavor()],
        namespaces=[msgspec.convert({"metadata": {"name": name}}, Namespace) for name in ("ns1", "ns2")],
    )
    for block, code in ((True, "WAIT/WaitingForPodsReady"), (False, "WAIT/PendingEvaluation")):
        settings = WorkloadSettings(pods_ready=PodsReadySettings(block_admission=block))
        assert served(waiting, objects, settings).code == code
