"""Documents of the repository: what docstrings and comments cite exists, and rules and the architecture page name
tests, files and functions that exist.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("job_controller", "queue_manager", "tests")
BEHAVIOURS = ("job_controller", "queue_manager")

CITATION = re.compile(r"(?<![\w/.-])((?:[\w.-]+/)*[\w-]+\.md)(?:#([\w-]+))?")
ROWS = re.compile(r"DIFFERENCES\.md,? rows? (\d+(?:(?:,| and|, and)\s+\d+)*)")
# Documents and numbers that a reader of the repository does not have.
FOREIGN = re.compile(
    r"\(spec[ :]|\bspec: \S+\.md|\bkueue(-measured)?\.md|\bjob-controller(-measured)?\.md|\binvariants\.md"
    r"|\b[Ii]nvariants? [A-Z]\d|\b[SL]\d{1,2}\b"
)
INVARIANTS = ROOT / "tests/local/queue/invariants.py"
INVARIANT = re.compile(r"\b[SL]\d{1,2}\b")
RULE = re.compile(r"^### [A-Z](\d+) (.+)$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


@cache
def texts(path: Path) -> tuple[str, ...]:
    """The prose of a file: docstrings and comments of Python, all of Markdown."""
    return tuple(read_prose(path))


def read_prose(path: Path) -> Iterator[str]:
    source = path.read_text()
    if ".md" not in source and not FOREIGN.search(source):
        return  # cites nothing, in code or prose; parsing all files takes seconds
    if path.suffix == ".md":
        yield source
    else:
        yield from docstrings_and_comments(source)


def docstrings_and_comments(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def files(package: str) -> list[Path]:
    """The files of a package, and of its unit tests where those are rewritten too."""
    folders = (ROOT / package, ROOT / "tests/unit" / package)
    return sorted(path for folder in folders for suffix in ("py", "md") for path in folder.rglob(f"*.{suffix}"))


def resolve(document: str, citing: Path, package: str) -> Path | None:
    """The document: beside the citing file or above it, in its package, or by its path in the repository.

    Unit tests of a package cite its documents as the package does.
    """
    tested = [ROOT / name for name in PACKAGES if citing.is_relative_to(ROOT / "tests/unit" / name)]
    places = [*(folder for folder in citing.parents if folder.is_relative_to(ROOT)), ROOT / package, *tested]
    return next((place / document for place in places if (place / document).is_file()), None)


def anchors(document: Path) -> set[str]:
    """The anchors of the headings, formed as GitHub does."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("package", PACKAGES)
def test_cited_documents_and_anchors_exist(package: str) -> None:
    wrong = []
    for path in files(package):
        for match in (match for text in texts(path) for match in CITATION.finditer(text)):
            document = resolve(match[1], path, package)
            if document is None or (match[2] and match[2] not in anchors(document)):
                wrong.append(f"{path.relative_to(ROOT)}: {match[0]}")
    assert not wrong


@pytest.mark.parametrize("package", [name for name in PACKAGES if (ROOT / name / "DIFFERENCES.md").exists()])
def test_cited_rows_of_differences_exist(package: str) -> None:
    differences = (ROOT / package / "DIFFERENCES.md").read_text()
    rows = set(re.findall(r"^\| (\d+) \|", differences, re.MULTILINE))
    cited = {
        number
        for path in files(package)
        for text in texts(path)
        for match in ROWS.finditer(text)
        for number in re.findall(r"\d+", match[1])
    }
    assert cited <= rows


def numbered_invariants() -> set[str]:
    """The numbers that the table in the docstring of invariants.py explains."""
    return set(INVARIANT.findall(ast.get_docstring(ast.parse(INVARIANTS.read_text())) or ""))


def uses_invariants(path: Path) -> bool:
    """Whether a file of the simulation, which names invariants by the numbers of that table."""
    return path == INVARIANTS or path.is_relative_to(ROOT / "tests/simulation")


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_cites_a_document_that_readers_do_not_have(package: str) -> None:
    known = numbered_invariants()
    wrong = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files(package)
        for text in texts(path)
        for match in FOREIGN.finditer(text)
        if not (uses_invariants(path) and match[0] in known)
    ]
    assert not wrong


@pytest.mark.parametrize("page", [*(f"{package}/BEHAVIOUR.md" for package in BEHAVIOURS), "SECURITY.md"])
def test_each_test_that_a_page_names_exists(page: str) -> None:
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    named = TEST.findall((ROOT / page).read_text())
    assert named
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not any(path.match(file) and re.search(rf"def {name}\(", text) for path, text in tests.items())
    ]
    assert not missing


@pytest.mark.parametrize("package", BEHAVIOURS)
def test_rules_are_numbered_and_have_a_source_and_a_test(package: str) -> None:
    text = (ROOT / package / "BEHAVIOUR.md").read_text()
    numbers = [int(number) for number, _ in RULE.findall(text)]
    assert numbers == sorted(
        set(numbers)
    )  # with gaps: rules that are written at the same time have numbers of their own
    for rule in RULE.split(text)[3::3]:
        assert "Source: " in rule
        assert TEST.search(rule)


PRODUCT = ROOT / "queue_manager"
GUIDES = [(PRODUCT / page).read_text() for page in ("ARCHITECTURE.md", "WHERE.md")]
NAMED = sorted({found for page in GUIDES for found in re.findall(r"`((?:\.\./)?[a-z_/]+\.py)(?:::(\w+))?`", page)})


def test_the_architecture_page_and_the_page_of_questions_name_files() -> None:
    assert len(NAMED) > 80


@pytest.mark.parametrize(("file", "name"), NAMED, ids=lambda part: part.removeprefix("../"))
def test_a_file_and_function_that_a_guide_names_exist(file: str, name: str) -> None:
    text = (PRODUCT / file).read_text()
    assert not name or re.search(rf"^\s*(?:async )?(?:def|class) {name}\b", text, re.MULTILINE)


PACKAGE_DOCSTRINGS = sorted(path for package in BEHAVIOURS for path in (ROOT / package).rglob("__init__.py"))
LISTED = re.compile(r"^ *([a-z]\w*(?:, [a-z]\w*)*)(?:,?  +\S.*|,?)$", re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGE_DOCSTRINGS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_the_modules_that_a_package_lists_exist(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse(package.read_text())) or ""
    exist = {path.stem for path in package.parent.iterdir()}
    assert not {name for names in LISTED.findall(docstring) for name in names.split(", ")} - exist


def prose_with_files(path: Path) -> Iterator[str]:
    source = path.read_text()
    return docstrings_and_comments(source) if ".py" in source else iter(())


@pytest.mark.parametrize("package", BEHAVIOURS)
def test_the_files_that_prose_names_exist(package: str) -> None:
    known = {path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    known |= {path.relative_to(ROOT) for path in ROOT.glob("*.py")}
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in prose_with_files(path)
        for name in re.findall(r"(?<![\w./])(?:[a-z_0-9]+/)*[a-z_0-9]+\.py\b", text)
        if not any(file.match(name) for file in known)
    ]
    assert not missing
