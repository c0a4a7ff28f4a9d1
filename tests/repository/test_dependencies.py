"""What is imported is declared, and what is declared is imported."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.test_layers import tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PROGRAMS = (
    ROOT / "tests" / "server" / "clients",
    *(ROOT / "tests" / folder / "programs" for folder in ("backends/ray", "records", "training")),
)
OURS = {"batchai_magics", "tests", "benchmarks", "tomllib"}
OURS |= {"plan", "secret_masking"}  # modules that travel beside the programs of nodes

# Declared and not imported: what a person wants beside the package, or what is run and not imported.
NOT_IMPORTED = {
    "mpich": "the MPI library that the programs of jobs load",
}


def named(requirements: list[str]) -> set[str]:
    """The distributions of a list of requirements, those of our own extras among them."""
    names = set()
    for requirement in requirements:
        name, extra = re.fullmatch(r"([\w.-]+)(?:\[([\w,]+)\])?.*", requirement).groups()
        ours = extra.split(",") if name == PROJECT["name"] else []
        names |= set().union(*(named(EXTRAS[one]) for one in ours)) if ours else {normal(name)}
    return names


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in a module, inner ones too: `ast.walk` visits all expressions besides."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from statements(child)


@functools.cache
def imported(folder: str) -> dict[str, str]:
    """The outside packages that the files of a folder import, each with one file that does."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path.parent in PROGRAMS:  # what is there says itself what it needs
            continue
        for node in statements(tree(path)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            else:
                continue
            firsts = {name.partition(".")[0] for name in names}
            others = [name for name in firsts if not path.with_name(f"{name}.py").exists()]
            found |= dict.fromkeys(others, str(path.relative_to(ROOT)))
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names | OURS}


brought = functools.cache(packages_distributions)


def provided(package: str) -> set[str]:
    """The distributions that bring a package: where none is installed, the one of its name."""
    return {normal(name) for name in brought().get(package, [package])}


@pytest.mark.parametrize(
    ("folder", "extra"),
    [("batchai_magics", "server,mcp,notebooks,ray,sweep"), ("tests", "test"), ("benchmarks", "bench")],
)
def test_what_is_imported_is_declared(folder, extra):
    declared = named(PROJECT["dependencies"])
    declared |= set().union(*(named(EXTRAS[name]) for name in extra.split(",")))
    missing = {name: path for name, path in imported(folder).items() if not provided(name) & declared}
    assert not missing


def test_what_is_required_is_imported_or_has_its_reason():
    used = set().union(*map(provided, imported("batchai_magics")))
    assert named(PROJECT["dependencies"]) - used == set(NOT_IMPORTED)


def test_what_benchmarks_import_of_the_package_exists():
    found = {
        (node.module, alias.name, str(path.relative_to(ROOT)))
        for path in (ROOT / "benchmarks").rglob("*.py")
        for node in statements(tree(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("batchai_magics")
        for alias in node.names
    }
    assert not [each for each in sorted(found) if not exists(*each[:2])]


def exists(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name) or bool(find_spec(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


def test_no_requirement_names_a_place():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert not re.search(r"index-url|find-links|\s@\s", text)


def test_hints_name_extras_of_the_package_as_shells_take_them():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "batchai_magics").rglob("*.py")]
    named = [found for text in texts for found in re.findall(r".batchai[-_]magics\[[\w,]*\].", text)]
    assert named
    assert {*named} <= {f"'batchai-magics[{extra}]'" for extra in EXTRAS}
