"""Decides when the webhook server's certificate is issued, announced, used and removed. The time is an argument.

Each certificate is issued by a CA of its own, whose key is discarded: who reads the Secret can act as this server, and
cannot issue further certificates. So each renewal also renews the CA, and clients must trust the new CA before a server
presents its certificate:

    state         servers present   clients trust   next
    new           A                 a               30 days before A expires, or a name is added: a successor is issued
    announced     A                 a, b            every caBundle holds b, since a minute: the successor is used
    renewed       B                 a, b            a expires: it is forgotten
    (new)         B                 b

Several replicas move one state, kept in a Secret, each by a write that fails if another one was first. A server that
still presents A, because it has not read the Secret again, is trusted until A expires. A certificate that cannot be
used (expired, damaged, for another Service) is replaced immediately. A name too many does not cause a renewal:
replicas of two versions of the program would replace each other's certificates during an upgrade.
BEHAVIOUR.md#q72-webhook-certificates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from queue_manager.engine.certificates import issue

SUBJECT = "sluice webhooks"
RENEW_BEFORE = timedelta(days=30)
OVERLAP = timedelta(seconds=60)  # for every API server to observe a new caBundle


class Pair(NamedTuple):
    """PEM texts of a serving certificate and its key."""

    certificate: str
    key: str

    @property
    def pem(self) -> str:
        """Key and certificate in one text, as the ssl module reads them from a file."""
        return self.key + self.certificate


@dataclass(frozen=True, slots=True)
class CertificateState:
    """What the Secret contains. `announced`: when the CA of the successor was added to the bundle."""

    serving: Pair | None = None
    bundle: str = ""  # PEM certificates of the CAs that clients trust
    successor: Pair | None = None
    announced: datetime | None = None


def next_state(
    state: CertificateState, names: Sequence[str], now: datetime, *, trusted: bool, overlap: timedelta = OVERLAP
) -> CertificateState:
    """The state that follows; the same if nothing is due.

    `names`: DNS names and addresses of the server, first the one that webhooks use. `trusted`: whether all clients have
    the bundle of this state.
    """
    serving, successor = state.serving, state.successor
    if successor is not None and not _is_usable(successor, state.bundle, names, now):
        return next_state(replace(state, successor=None, announced=None), names, now, trusted=trusted, overlap=overlap)
    if serving is None or not _is_usable(serving, state.bundle, names, now):
        return _promoted(state) if successor is not None else _replaced(state, names, now)
    if successor is not None:
        known = trusted and state.announced is not None and now >= state.announced + overlap
        return _promoted(state) if known else state
    if expiry(serving.certificate) - RENEW_BEFORE <= now or not _names(serving.certificate) >= set(names):
        return _announced(state, names, now)
    bundle = _without_expired(state.bundle, now)
    return state if bundle == state.bundle else replace(state, bundle=bundle)


def expiry(certificate: str) -> datetime:
    """When the first certificate in this PEM text expires. Raises ValueError without one."""
    return x509.load_pem_x509_certificates(certificate.encode())[0].not_valid_after_utc


def _replaced(state: CertificateState, names: Sequence[str], now: datetime) -> CertificateState:
    issued = issue(SUBJECT, names, now)
    bundle = issued.authority + _without_expired(state.bundle, now)
    return CertificateState(Pair(issued.certificate, issued.key), bundle)


def _announced(state: CertificateState, names: Sequence[str], now: datetime) -> CertificateState:
    issued = issue(SUBJECT, names, now)
    bundle = issued.authority + _without_expired(state.bundle, now)
    return CertificateState(state.serving, bundle, Pair(issued.certificate, issued.key), now.replace(microsecond=0))


def _promoted(state: CertificateState) -> CertificateState:
    return CertificateState(state.successor, state.bundle)


# What reading a damaged certificate raises; those of x509 are no ValueErrors.
DAMAGED = (
    ValueError,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


def _is_usable(pair: Pair, bundle: str, names: Sequence[str], now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        key = load_pem_private_key(pair.key.encode(), None)
        return (
            certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc
            and certificate.public_key() == key.public_key()
            and names[0] in _names(pair.certificate)
            and any(_has_issued(authority, certificate) for authority in _certificates(bundle))
        )
    except (TypeError, UnsupportedAlgorithm, *DAMAGED):
        return False


def _names(certificate: str) -> set[str]:
    """The names that the certificate is valid for. Raises ValueError or x509.ExtensionNotFound."""
    extensions = x509.load_pem_x509_certificate(certificate.encode()).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        return False
    return True


def _without_expired(bundle: str, now: datetime) -> str:
    kept = [authority for authority in _certificates(bundle) if now < authority.not_valid_after_utc]
    return "".join(authority.public_bytes(Encoding.PEM).decode() for authority in kept)


def _certificates(bundle: str) -> list[x509.Certificate]:
    """The certificates of a bundle; none if it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(bundle.encode())
    except DAMAGED:
        return []
