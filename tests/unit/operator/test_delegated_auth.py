"""Who makes a request, as the API server is asked about it."""

from __future__ import annotations

import pytest

from queue_manager.operator.delegated_auth import Identity, authenticated


@pytest.mark.parametrize(
    ("user", "groups", "expected"),
    [
        ("system:kube-aggregator", (), ("system:authenticated",)),
        ("alice", ("research",), ("research", "system:authenticated")),
        ("alice", ("system:authenticated",), ("system:authenticated",)),
        ("alice", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", (), ()),
    ],
)
def test_who_is_known_belongs_to_the_group_of_all_authenticated_users(
    user: str, groups: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert authenticated(Identity(user, groups)) == Identity(user, expected)
