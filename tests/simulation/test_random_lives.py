"""Random actions of users, admins and failures on the whole system keep the invariants of
tests/local/queue/invariants.py.

S1, S5, S10 to S12 and S21 to S23 at every write of the API's history; S2, S4 and L1 to L8 at its end.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_manager.simulation.virtual_time import run_virtual
from tests.simulation.lives import MOVES, Move, live

moves = st.builds(Move, st.sampled_from([*MOVES, "submit", "submit", "wait", "start"]), *[st.integers(0, 11)] * 3)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(moves, min_size=5, max_size=25))
def test_random_moves_keep_the_invariants(scenario: list[Move]) -> None:
    run_virtual(live([Move("submit", 0, 2), Move("submit", 1, 1, 2), *scenario]))
