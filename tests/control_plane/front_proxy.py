"""What kube-apiserver needs to aggregate other API servers: the client certificate that it presents, and its CA."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def flags(folder: Path) -> tuple[str, ...]:
    """Write the files into the folder; returns the flags of kube-apiserver that name them."""
    _write_files(folder)
    return (
        f"--requestheader-client-ca-file={folder / 'ca.pem'}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={folder / 'client.pem'}",
        f"--proxy-client-key-file={folder / 'client.key'}",
    )


def _write_files(folder: Path) -> None:
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("front-proxy-ca", "front-proxy")]
    now = datetime.now(UTC)
    for subject, key, is_ca in ((names[0], keys[0], True), (names[1], keys[1], False)):
        builder = x509.CertificateBuilder(names[0], subject, key.public_key(), x509.random_serial_number())
        certificate = (
            builder.not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(keys[0], hashes.SHA256())
        )
        (folder / ("ca.pem" if is_ca else "client.pem")).write_bytes(certificate.public_bytes(Encoding.PEM))
    secret = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "client.key").write_bytes(secret)
