"""Amounts of bytes as people read them."""

from __future__ import annotations

import pytest

from queue_manager.visibility.readable_amounts import readable, readable_pair


@pytest.mark.parametrize(
    ("resource", "quantity", "text"),
    [
        ("memory", "8Gi", "8Gi"),
        ("memory", "1536Mi", "1536Mi"),
        ("memory", "24105Mi", "23.5Gi"),
        ("memory", "3230612736", "3.0Gi"),
        ("memory", "1073741823", "1.0Gi"),
        ("memory", "120M", "120M"),
        ("memory", "0", "0"),
        ("memory", "not a quantity", "not a quantity"),
        ("ephemeral-storage", "1048575Mi", "1.0Ti"),
        ("hugepages-2Mi", "123456Ki", "120.6Mi"),
        ("cpu", "12345678m", "12345678m"),
        ("example.com/gpu", "12345678", "12345678"),
    ],
)
def test_long_amounts_of_bytes_are_rounded_to_a_tenth_of_the_greatest_unit(
    resource: str, quantity: str, text: str
) -> None:
    assert readable(resource, quantity) == text


def test_amounts_that_differ_never_read_the_same() -> None:
    assert readable_pair("memory", "24104Mi", "24105Mi") == "24104Mi/24105Mi"
    assert readable_pair("memory", "24105Mi", "24105Mi") == "23.5Gi/23.5Gi"
    assert readable_pair("memory", "3230612736", "24105Mi") == "3.0Gi/23.5Gi"
