"""Reading manifests: their objects with the lines of fields, and refusals with their line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from queue_manager.cli import manifests
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: a
  labels:
    kueue.x-k8s.io/queue-name: q
spec:
  template:
    spec:
      containers:
        - name: main
          image: x
        - name: second
"""


def read(tmp_path: Path, text: str, name: str = "f.yaml") -> list[manifests.Manifest]:
    file = tmp_path / name
    file.write_text(text)
    return manifests.read(str(file))


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(CommandRefused) as refused:
        read(tmp_path, text)
    assert refused.value.code == EXIT_NEVER
    return str(refused.value).replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("", 1),
        ("kind", 2),
        ("metadata.name", 4),
        ("metadata.labels[kueue.x-k8s.io/queue-name]", 6),
        ("spec.template.spec.containers[1].name", 13),
        ("spec.template.spec.containers[0].command", 11),
        ("spec.template.spec.containers[7].image", 10),
        ("spec.parallelism", 7),
        ("nothing.like.it", 1),
    ],
)
def test_a_field_has_its_line_or_that_of_its_parent(tmp_path: Path, field: str, line: int) -> None:
    (manifest,) = read(tmp_path, JOB)
    assert manifest.place(field) == f"{tmp_path}/f.yaml:{line}"


def test_lines_count_through_all_documents_of_a_file(tmp_path: Path) -> None:
    _, second = read(tmp_path, f"{JOB}---\n{JOB}")
    assert second.place("metadata.name").endswith(":18")


@pytest.mark.parametrize("text", ["", "---\n", "---\n---\n", "# only a comment\n", "null\n"])
def test_empty_documents_are_skipped(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == []


def test_values_are_read_as_by_kubectl(tmp_path: Path) -> None:
    (manifest,) = read(tmp_path, "a: 1:30\nb: 0o17\nc: 08\nd: !!binary aGk=\ne: !!python/object:os.system {}\non: y\n")
    assert manifest.tree == {"a": "1:30", "b": 15, "c": 8, "d": "hi", "e": {}, "true": True}


def test_dates_and_numbers_as_keys_stay_strings(tmp_path: Path) -> None:
    (manifest,) = read(tmp_path, "kind: Job\nat: 2026-01-01\nthen: 2026-01-01T10:00:00Z\n1: one\ntrue: yes\n")
    assert manifest.tree == {
        "kind": "Job",
        "at": "2026-01-01",
        "then": "2026-01-01T10:00:00Z",
        "1": "one",
        "true": True,
    }


def test_an_anchor_may_be_used_again_and_merged(tmp_path: Path) -> None:
    (manifest,) = read(tmp_path, "a: &a {x: 1}\nb: *a\nc: {<<: *a, z: 2}\n")
    assert manifest.tree == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "z": 2}}


LIST = """\
apiVersion: v1
kind: List
items:
  - apiVersion: batch/v1
    kind: Job
    metadata: {name: a}
  - apiVersion: batch/v1
    kind: JobList
    items:
      - kind: Job
        metadata:
          name: b
"""


def test_a_list_is_read_as_its_items_with_their_lines(tmp_path: Path) -> None:
    found = read(tmp_path, LIST)
    assert [(one.tree["metadata"]["name"], one.place("metadata.name").rpartition(":")[2]) for one in found] == [
        ("a", "6"),
        ("b", "12"),
    ]


def test_a_list_item_that_is_not_an_object_is_refused_with_its_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, "kind: List\nitems:\n  - x\n") == (
        "nothing was submitted:\n  /f.yaml:3: an item is a mapping with apiVersion and kind"
    )


def test_json_may_be_indented_with_tabs(tmp_path: Path) -> None:
    (manifest,) = read(tmp_path, '{\n\t"kind": "Job",\n\t"a": "x\\ty"\n}', "f.json")
    assert manifest.tree == {"kind": "Job", "a": "x\ty"}


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "/f.yaml:1: more than 200000 values once aliases are expanded"),
        ("a: &a [*a]\n", "/f.yaml:1: cannot be sent to an API server: yaml: the value of an anchor contains itself"),
        ("- a\n- b\n", "/f.yaml:1: a manifest is a mapping with apiVersion and kind"),
        ("just words\n", "/f.yaml:1: a manifest is a mapping with apiVersion and kind"),
        ("a: 1\nb: [1\n", "/f.yaml:2: "),
        ("a: *nowhere\n", "/f.yaml:1: found undefined alias"),
        ("a: 1\nb: 2\na: 3\n", "/f.yaml:3: a is a duplicate key; first given in line 1"),
        ("b: 1\na: .inf\n", "/f.yaml:2: cannot be sent to an API server: json: unsupported value: +Inf"),
        ("a: !!int x\n", "/f.yaml:1: cannot be sent to an API server: yaml: cannot decode !!str `x` as a !!int"),
        (f"a: {'[' * 5000}{']' * 5000}\n", "/f.yaml:1: nested more than 100 levels deep"),
        ("a: 1\nb: \x01\n", "/f.yaml:2: character 0x1 is not allowed in YAML"),
    ],
    ids=[
        "bomb",
        "loop",
        "list",
        "text",
        "open",
        "alias",
        "twice",
        "infinity",
        "tagged",
        "deep",
        "control",
    ],
)
def test_an_invalid_manifest_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    assert says in refusal(tmp_path, text)


def test_every_invalid_file_of_a_folder_is_named(tmp_path: Path) -> None:
    for name, text in {"a.yaml": "[", "b.yml": JOB, "c.json": "}", "d.txt": "["}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(CommandRefused) as refused:
        manifests.read(str(tmp_path))
    assert "a.yaml" in str(refused.value)
    assert "c.json" in str(refused.value)
    assert "b.yml" not in str(refused.value)
    assert "d.txt" not in str(refused.value)


def test_a_folder_is_read_in_order_of_name(tmp_path: Path) -> None:
    for name in ("2.yaml", "1.json", "10.yml"):
        (tmp_path / name).write_text(f'{{"name": "{name}"}}')
    assert [m.tree["name"] for m in manifests.read(str(tmp_path))] == ["1.json", "10.yml", "2.yaml"]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(JOB))
    (manifest,) = manifests.read("-")
    assert manifest.place("kind") == "<stdin>:2"


@pytest.mark.parametrize(("make", "says"), [("none", "No such file"), ("empty", "no .yaml"), ("latin", "not UTF-8")])
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, make: str, says: str) -> None:
    path = tmp_path / make
    if make == "empty":
        path.mkdir()
    if make == "latin":
        path.write_bytes(b"a: \xff")
    with pytest.raises(CommandRefused, match=says) as refused:
        manifests.read(str(path))
    assert str(path) in str(refused.value)
