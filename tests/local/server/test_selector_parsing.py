"""Label and field selectors: what they match, and the real server's messages for invalid ones."""

from __future__ import annotations

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, PODS
from queue_manager.local.server.selector_parsing import (
    KEY_FORMAT,
    NAME_FORMAT,
    SUBDOMAIN_FORMAT,
    parse_fields,
    parse_labels,
)
from queue_manager.local.status_errors import StatusError

MATCHES = [
    ("a=b", {"a": "b"}, True),
    ("a==b,c", {"a": "b"}, False),
    ("a!=b", {}, True),
    ("a in (b,c)", {"a": "c"}, True),
    ("a notin (b)", {"a": "b"}, False),
    ("a in ()", {"a": ""}, True),
    ("!a", {"a": ""}, False),
    ("! a", {}, True),
    ("a>1", {"a": "2"}, True),
    ("a<1", {"a": "2"}, False),
    ("a>1", {"a": "x"}, False),
    ("a>1", {"a": "1"}, False),
    ("a<2", {"a": "2"}, False),
    ("a<2", {"a": "-3"}, True),
    ("a<2", {}, False),
    ("a>1", {"a": "1_0"}, False),
    ("a>1", {"a": "99999999999999999999"}, False),
    ("a>1", {"a": "0000000000000000000002"}, True),
    ("a=,b", {"a": "", "b": "x"}, True),
    ("in in (in)", {"in": "in"}, True),
    ("", {}, True),
]


@pytest.mark.parametrize(("text", "labels", "matches"), MATCHES)
def test_label_selectors_match(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_labels(text)(labels) is matches


WRONG = [
    ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("a in b", "unable to parse requirement: found 'b' expected: '('"),
    ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
    ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
    ("=b", "found '=', expected: !, identifier, or 'end of string'"),
    ("a=b,", "found '', expected: identifier after ','"),
    ("a,,b", "found ',', expected: identifier after ','"),
    ("!", "unable to parse requirement: found '', expected: identifier"),
    ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    ("a=!", "unable to parse requirement: found '!', expected: identifier"),
    ("!!a", "unable to parse requirement: found '!', expected: identifier"),
    ("/a=b", 'unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty'),
    ("a in (b=)", "unable to parse requirement: found '=', expected: ',' or ')'"),
    ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
    ("a in", "unable to parse requirement: found '' expected: '('"),
    (">b", "found '>', expected: !, identifier, or 'end of string'"),
    ("a/=b", f'unable to parse requirement: <nil>: Invalid value: "a/": name part must be non-empty; {NAME_FORMAT}'),
    ("A/b", f'unable to parse requirement: <nil>: Invalid value: "A/b": {SUBDOMAIN_FORMAT}'),
    ("a/b/c", f'unable to parse requirement: <nil>: Invalid value: "a/b/c": {KEY_FORMAT}'),
    (
        "x" * 64,
        f'unable to parse requirement: <nil>: Invalid value: "{"x" * 64}": name part must be no more than 63 bytes',
    ),
    (
        "a>9223372036854775808",
        'unable to parse requirement: values[0]: Invalid value: "9223372036854775808": '
        "for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    (
        "a>x",
        'unable to parse requirement: values[0]: Invalid value: "x": '
        "for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    (
        "a=" + "x" * 64,
        f'unable to parse requirement: values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_wrong_label_selectors_are_refused_in_the_servers_words(text: str, message: str) -> None:
    with pytest.raises(StatusError) as error:
        parse_labels(text)
    assert (error.value.code, error.value.message) == (400, message)


@pytest.mark.parametrize("key", ["x" * 63, "a.b/" + "x" * 63, "a" * 253 + "/b"])
def test_the_longest_valid_keys_and_values(key: str) -> None:
    assert parse_labels(f"{key}={'v' * 63}")({key: "v" * 63})


def test_field_selectors_match_with_escapes() -> None:
    matcher = parse_fields(r"metadata.name=a\=b,status.phase!=Running")
    assert matcher({"metadata.name": "a=b", "status.phase": "Pending"})
    assert not matcher({"metadata.name": "a=b", "status.phase": "Running"})
    assert matcher.exactly("metadata.name") == "a=b"


WRONG_FIELDS = [
    ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
    ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    (r"metadata.name=a\x", "invalid field selector: invalid escape sequence: \\x"),
    ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
]


@pytest.mark.parametrize(("text", "message"), WRONG_FIELDS)
def test_wrong_field_selectors_are_refused_in_the_servers_words(text: str, message: str) -> None:
    with pytest.raises(StatusError) as error:
        parse_fields(text)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (PODS, "field label not supported: x"),
        (JOBS, 'field label "x" not supported for Job'),
        (CONFIG_MAPS, '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
def test_a_field_that_cannot_be_selected_by_is_refused_per_kind(resource: object, message: str) -> None:
    with pytest.raises(StatusError) as error:
        parse_fields("x=y").require_supported(lambda _: False, resource)  # type: ignore[arg-type]
    assert error.value.message == message
