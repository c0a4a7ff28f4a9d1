"""Imports point one way, and every outside library has a home. Read from the source; nothing is run."""

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "batchai_magics"
ORDER = (
    "errors | models config options | launch cell metrics | backends.base | backends.service backends.node"
    " | backends.* | follow | jobs | cards commands | widgets server | magics cli"
)
LAYERS = {unit: number for number, layer in enumerate(ORDER.split("|")) for unit in layer.split()}

# The only modules and packages that import a library.
HOMES = {
    "IPython": {"magics", "widgets.core.display"},
    "anywidget": {"widgets"},
    "ipywidgets": {"widgets"},
    "azure": {"backends.arm", "backends.azureml"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "subprocess": {"backends.node", "backends.local", "backends.slurm"},
    "sqlite3": {"backends.local.state"},
    "psutil": {"backends.node", "backends.local", "backends.slurm"},
}
SHARED_BY_BACKENDS = {"backends.base", "backends.service", "backends.node"}
HEAVY = {"azure", "matplotlib", "pandas", "yaml"}  # imported inside the function that needs them

MODULES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
    if path.parent != ROOT or path.stem != "__init__"
}


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_layer(module):
    layer(unit(module))


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_to_lower_layers_only(module):
    here = unit(module)
    wrong = [
        f"{name} (line {line})"
        for name, line in imports(MODULES[module])
        if name in MODULES and unit(name) != here and layer(unit(name)) >= layer(here)
    ]
    assert not wrong, f"{module} imports sideways or upwards: {', '.join(wrong)}"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_above_the_backends_knows_one_of_them(module):
    own = [
        f"{name} (line {line})"
        for name, line in imports(MODULES[module])
        if name.startswith("batchai_magics.backends.") and unit(name) not in SHARED_BY_BACKENDS
    ]
    is_above = layer(unit(module)) > LAYERS["backends.*"]
    assert not (is_above and own), f"{module} imports a backend's own package: {', '.join(own)}"


@pytest.mark.parametrize("module", MODULES)
def test_outside_libraries_stay_in_their_homes(module):
    strays = [
        f"{name} (line {line})"
        for name, line in imports(MODULES[module])
        if not lives_in(HOMES.get(name.split(".")[0], {""}), module)
    ]
    assert not strays, f"{module} is not the home of {', '.join(strays)}"


@pytest.mark.parametrize("module", MODULES)
def test_sql_is_said_in_one_folder(module):
    said = [
        f"{ast.unparse(node.func)} (line {node.lineno})"
        for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("db.exec", "connection.exec"))
    ]
    assert not said or lives_in(HOMES["sqlite3"], module), f"{module} has statements: {', '.join(said)}"


@pytest.mark.parametrize("module", MODULES)
def test_heavy_libraries_load_only_when_they_are_needed(module):
    early = [
        f"{name} (line {line})"
        for name, line in imports(MODULES[module], when=at_load)
        if name.split(".")[0] in HEAVY
    ]
    assert not early, f"{module} imports at load: {', '.join(early)}"


def unit(module):
    """The part of the package that a module belongs to: `backends.local`, `jobs`, `cell`."""
    first, *rest = module.split(".")[1:]
    return f"backends.{rest[0]}" if first == "backends" and rest else first


def lives_in(homes, module):
    inside = module.removeprefix("batchai_magics").removeprefix(".")
    return any(not home or f"{inside}.".startswith(f"{home}.") for home in homes)


def layer(unit):
    name = unit if unit in LAYERS else "backends.*" if unit.startswith("backends") else unit
    assert name in LAYERS, f"{unit} is not in the order of layers"
    return LAYERS[name]


@functools.cache
def imports(path, *, when=ast.walk):
    """The dotted names that a file imports, each with its line; every file is read once for all tests."""
    return tuple(_imports(path, when))


def _imports(path, when):
    for node in when(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((name if name in MODULES else node.module, node.lineno) for name in full)


def at_load(node):
    """The nodes that run when a module loads: none in functions, none for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        is_for_checkers = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not is_for_checkers and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from at_load(child)
