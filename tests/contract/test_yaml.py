"""YAML bodies: both servers read the same values from the same text, and refuse the same texts."""

from __future__ import annotations

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS
from queue_manager.engine.transport_protocol import APPLY_PATCH
from tests.contract.bodies import definition, things
from tests.contract.session import Session

YAML = "application/yaml"
VALUES = """\
booleans: [yes, Yes, YES, yEs, y, no, n, on, off, true, True, tRUE]
nulls: [~, null, Null, nULL]
integers: [017, 0o17, 08, 0x1F, 0b101, 1_000, +7, -017, 1e3, 1.0, 9223372036854775807]
floats: [1.5, .5, 1_0.5, 1e-3, 1e400, 0x1p-2]
texts: [1:30, 1:30:00.5, 2001-12-14, 2001-12-14T21:59:43Z, 0o18, 1Gi, 100m, =, .iNF]
tagged: [!!str yes, !!int '12', !!float 1, !!binary aGVsbG8=, !custom x]
keys: {yes: 1, 017: 2, 1.5: 3, 0x10: 4, on: 5}
base: &base {a: 1, b: 2}
merged: {<<: *base, c: 3}
hidden: {c: 3, <<: *base}
"""
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec:\n  suspend: true\n  parallelism: {}\n" + (
    "  template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: x}}]}}}}\n"
)
NUMBERS = ("1:30", "1:1.5", ".inf", "-.inf", ".nan", "0o3", "017", "1e1", "1.0", "1.5", "3_0", "yes", '"3"', "~",
           "99999999999", "99999999999999999999999", "1e400")  # fmt: skip
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
WRAPPED = ("1.5", "99999999999", "99999999999999999999999")  # wrap around in the conversion after an apply
OTHER_WORDS = ("a: *b", "a: &a [*a]", "? [a]\n: b", "~: a")
BROKEN = ("a: [", "a: }", "\ta: 1", "a: b: c", "a: {<<: 1}", "a: !!int x", "a: .nan", "- a", "text", "", "a: @x",
          "a: !!binary '*'", *OTHER_WORDS)  # fmt: skip


async def test_scalars_keys_and_merges_are_read_alike(s: Session) -> None:
    await s.define(definition(s.group, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
    spec = "".join(f"  {line}\n" for line in VALUES.splitlines())
    text = f"apiVersion: {s.group}/v1\nkind: Thing\nmetadata: {{name: t}}\nspec:\n{spec}"
    await s.ask("POST", things(s.group).path(s.namespace), text.encode(), content_type=YAML)


@pytest.mark.parametrize("number", NUMBERS)
async def test_a_number_is_accepted_or_refused_alike(s: Session, number: str) -> None:
    body = JOB.format(number).encode()
    await s.ask("POST", JOBS.path(s.namespace), body, content_type=YAML, dryRun="All")
    job, differs = JOBS.path(s.namespace, "j"), "apply-overflow" if number in WRAPPED else ""
    await s.ask("PATCH", job, body, content_type=APPLY_PATCH, differs=differs, fieldManager="m", dryRun="All")


@pytest.mark.parametrize("text", BROKEN)
async def test_yaml_that_is_not_an_object_is_refused(s: Session, text: str) -> None:
    body, differs = text.encode(), "yaml-words" if text in OTHER_WORDS else ""
    await s.ask("POST", CONFIG_MAPS.path(s.namespace), body, content_type=YAML, differs=differs)
    one = CONFIG_MAPS.path(s.namespace, "c")
    await s.ask("PATCH", one, body, content_type=APPLY_PATCH, differs=differs, fieldManager="m")


@pytest.mark.parametrize("key", ["a", "'yes'", "yes", "017"])
@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
async def test_repeated_keys(s: Session, validation: str, key: str) -> None:
    text = f"{MAP}data: {{{key}: b, {key}: c}}\n".encode()
    await s.ask("POST", CONFIG_MAPS.path(s.namespace), text, content_type=YAML, fieldValidation=validation)


async def test_only_the_first_document_is_read(s: Session) -> None:
    await s.ask("POST", CONFIG_MAPS.path(s.namespace), f"{MAP}---\nb: 1\n".encode(), content_type=YAML)


async def test_a_merge_key_beside_a_field_that_it_also_sets(s: Session) -> None:
    text = f"{MAP}data: &a {{a: b}}\nbinaryData: {{<<: *a, a: YQ==}}\n".encode()
    await s.ask("POST", CONFIG_MAPS.path(s.namespace), text, content_type=YAML, differs="yaml-merges")
