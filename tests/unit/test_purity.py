"""A module that says "Pure" in its docstring is in import-linter's purity contract, and the other way round."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRACT = "A pure core does no I/O, reads no clock and knows no engine"


def members() -> set[str]:
    """The modules and packages that the contract names."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (names,) = (contract["source_modules"] for contract in contracts if contract["name"] == CONTRACT)
    return set(names)


def modules() -> dict[str, Path]:
    """The files of the product by the name of their module."""
    files = [path for package in ("job_controller", "queue_manager") for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


def says_pure(path: Path) -> bool:
    return re.search(r"\bpure\b", ast.get_docstring(ast.parse(path.read_text())) or "", re.IGNORECASE) is not None


def test_each_module_that_says_pure_is_in_the_contract() -> None:
    covered = members()
    # The docstring of a package may name those of its modules that are pure.
    claims = [name for name, path in modules().items() if path.name != "__init__.py" and says_pure(path)]
    parents = {name: {name.rsplit(".", depth)[0] for depth in range(name.count(".") + 1)} for name in claims}
    assert [name for name in claims if not parents[name] & covered] == []


def test_each_member_of_the_contract_says_pure() -> None:
    files = modules()
    assert [name for name in sorted(members()) if not says_pure(files[name])] == []
