"""The life of the webhook server's certificate, with an injected clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from queue_manager.operator.webhooks.certificate_rotation import (
    OVERLAP,
    RENEW_BEFORE,
    CertificateState,
    Pair,
    expiry,
    next_state,
)

NAMES = ("webhooks.system.svc", "127.0.0.1")
START = datetime(2026, 1, 1, tzinfo=UTC)


def begun() -> CertificateState:
    return next_state(CertificateState(), NAMES, START, trusted=False)


def authorities(state: CertificateState) -> int:
    return len(x509.load_pem_x509_certificates(state.bundle.encode()))


def due(state: CertificateState) -> datetime:
    assert state.serving is not None
    return expiry(state.serving.certificate) - RENEW_BEFORE


def test_a_new_certificate_names_the_services_and_is_left_alone() -> None:
    state = begun()
    assert state.serving is not None
    certificate = x509.load_pem_x509_certificate(state.serving.certificate.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["webhooks.system.svc"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(state.bundle.encode()))
    assert next_state(state, NAMES, due(state) - timedelta(seconds=1), trusted=True) is state


def test_a_successor_is_announced_before_it_is_used() -> None:
    state = begun()
    now = due(state)
    announced = next_state(state, NAMES, now, trusted=True)
    assert announced.serving == state.serving
    assert announced.successor is not None
    assert authorities(announced) == 2
    assert next_state(announced, NAMES, now + timedelta(days=1), trusted=False) is announced  # not injected everywhere
    assert next_state(announced, NAMES, now + OVERLAP / 2, trusted=True) is announced  # too early
    used = next_state(announced, NAMES, now + OVERLAP, trusted=True)
    assert used == CertificateState(announced.successor, announced.bundle)


def test_the_old_authority_is_forgotten_when_it_expires() -> None:
    state = begun()
    assert state.serving is not None
    now = due(state)
    used = next_state(next_state(state, NAMES, now, trusted=True), NAMES, now + OVERLAP, trusted=True)
    end = expiry(state.serving.certificate)
    assert next_state(used, NAMES, end - timedelta(seconds=1), trusted=True) is used
    assert authorities(next_state(used, NAMES, end, trusted=True)) == 1


def test_ten_years_leave_no_moment_without_a_trusted_certificate() -> None:
    state, now = begun(), START
    replacements = 0
    for _ in range(10 * 365):
        now += timedelta(days=1)
        after = next_state(state, NAMES, now, trusted=True)
        assert after.serving is not None
        assert now < expiry(after.serving.certificate)
        if after.serving != state.serving:
            assert after.bundle == state.bundle  # trusted before
            replacements += 1
        assert 1 <= authorities(after) <= 2
        state = after
    assert replacements == 5


def test_a_manager_that_slept_uses_the_announced_successor() -> None:
    state = begun()
    assert state.serving is not None
    announced = next_state(state, NAMES, due(state), trusted=True)
    woken = next_state(announced, NAMES, expiry(state.serving.certificate), trusted=False)
    assert woken.serving == announced.successor


def broken(state: CertificateState) -> list[CertificateState]:
    assert state.serving is not None
    other = begun()
    assert other.serving is not None
    return [
        replace(state, serving=None),
        replace(state, serving=Pair("", "")),
        replace(state, serving=Pair(state.serving.certificate, other.serving.key)),
        replace(state, bundle=""),
        replace(state, bundle=other.bundle),
        replace(state, bundle="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    ]


@pytest.mark.parametrize("number", range(6))
def test_a_damaged_state_is_replaced_at_once(number: int) -> None:
    state = begun()
    after = next_state(broken(state)[number], NAMES, START, trusted=True)
    assert after.serving not in (None, state.serving)
    assert after.successor is None
    assert next_state(after, NAMES, START, trusted=True) is after


def test_another_name_of_the_service_replaces_the_certificate_at_once() -> None:
    after = next_state(begun(), ("other.system.svc",), START, trusted=True)
    assert after.serving != begun().serving
    assert authorities(after) == 2


def test_a_further_name_is_announced_before_it_is_used() -> None:
    """And a replica of the version before, which does not know the name, changes nothing."""
    state, more = begun(), (*NAMES, "metrics.system.svc")
    announced = next_state(state, more, START, trusted=True)
    assert announced.serving == state.serving
    used = next_state(announced, more, START + OVERLAP, trusted=True)
    assert used.serving == announced.successor
    for names in (NAMES, more):
        assert next_state(used, names, START + OVERLAP, trusted=True) is used


def test_a_damaged_successor_is_issued_again() -> None:
    state = begun()
    announced = replace(next_state(state, NAMES, due(state), trusted=True), successor=Pair("x", "y"))
    after = next_state(announced, NAMES, due(state) + OVERLAP, trusted=True)
    assert after.serving == state.serving
    assert after.successor not in (None, Pair("x", "y"))
