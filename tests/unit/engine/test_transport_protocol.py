"""Each predicate of an ApiError stands for its HTTP statuses."""

import pytest

from queue_manager.engine.transport_protocol import ApiError


@pytest.mark.parametrize(
    ("predicate", "statuses"),
    [
        ("is_unauthorized", {401}),
        ("is_forbidden", {403}),
        ("is_not_found", {404}),
        ("is_conflict", {409}),
        ("is_expired", {410}),
        ("is_rejected", {400, 403, 413, 422}),
    ],
)
def test_a_predicate_holds_for_its_statuses_only(predicate: str, statuses: set[int]) -> None:
    found = {status for status in range(400, 600) if getattr(ApiError(status, "", ""), predicate)}
    assert found == statuses
