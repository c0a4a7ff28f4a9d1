"""Imports point one way, and every outside library has a home. Read from the source; nothing is run."""

import ast
import functools
import graphlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "batchai_magics"
ORDER = (
    "errors lazy_exports log_lines untrusted_files user_ports version | models config | options"
    " | launch cell metrics records | backends.base | backends.node backends.machines"
    " | backends.folders | backends.service | backends.azure"
    " | backends.* | follow | jobs | cards commands | widgets server | magics agents agent_skill | cli"
)
LAYERS = {unit: number for number, layer in enumerate(ORDER.split("|")) for unit in layer.split()}
METRICS_ORDER = "timestamps measurement column measurement_table | grammar programs | reading | runs charts"
METRICS_LAYERS = {
    part: number for number, layer in enumerate(METRICS_ORDER.split("|")) for part in layer.split()
}

# The only modules and packages that import a library.
HOMES = {
    "IPython": {"magics", "widgets.core.display"},
    "anywidget": {"widgets"},
    "ipywidgets": {"widgets"},
    "rich": {"commands.output"},
    "mcp": {"agents"},
    "optuna": {"jobs.sweeps"},
    "azure": {"backends.arm", "backends.azure", "backends.azureml"},
    "ray": {"backends.ray.node"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "subprocess": {
        "cell.python_env",
        "jobs.git_process",
        "backends.azureml.node",
        "backends.folders.notification_sending",
        "backends.node",
        "backends.machines",
        "backends.local",
        "backends.slurm",
        "backends.ray",
    },
    "sqlite3": {"backends.local.state"},
    "psutil": {"backends.node", "backends.local", "backends.slurm"},
}
SHARED_BY_BACKENDS = {
    "backends.base",
    "backends.service",
    "backends.node",
    "backends.folders",
    "backends.machines",
}
HEAVY = {"azure", "matplotlib", "pandas", "yaml"}  # imported inside the function that needs them
LATE = {"batchai_magics.models.documents.plain_yaml"}  # so are these: they may import heavy ones as they load

# Lists of jobs and supervisors load these, and none of pydantic.
SLIM = (
    "models.response_object",
    "models.job_execution",
    "models.resources.job_resource",
    "models.resources.cluster_resource",
    "backends.local.supervisor",
)

MODULES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
    if path.parent != ROOT or path.stem != "__init__"
}


def test_every_module_has_a_layer():
    for module in MODULES:
        layer(unit(module))


def test_imports_point_to_lower_layers_only():
    wrong = [
        f"{module}:{line} imports {name}"
        for module, name, line in imported()
        if name in MODULES and unit(name) != unit(module) and layer(unit(name)) >= layer(unit(module))
    ]
    assert not wrong, f"sideways or upwards: {', '.join(wrong)}"


def test_grammar_and_readers_of_logs_import_nothing_above_them():
    wrong = [
        f"{module}:{line} imports {name}"
        for module, name, line in imported()
        if metrics_layer(name, otherwise=0) > metrics_layer(module, otherwise=len(METRICS_LAYERS))
    ]
    assert not wrong, f"upwards: {', '.join(wrong)}"


def test_no_modules_import_each_other():
    graph = {module: set() for module in MODULES}
    for module, name, _ in imported():  # those in functions and for type checkers among them
        if name in MODULES and name != module:
            graph[module].add(name)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"in a ring: {' → '.join(error.args[1])}")


def test_nothing_above_the_backends_knows_one_of_them():
    wrong = [
        f"{module}:{line} imports {name}"
        for module, name, line in imported()
        if layer(unit(module)) > LAYERS["backends.*"]
        and name.startswith("batchai_magics.backends.")
        and unit(name) not in SHARED_BY_BACKENDS
    ]
    assert not wrong, f"a backend's own package: {', '.join(wrong)}"


def test_outside_libraries_stay_in_their_homes():
    strays = [
        f"{module}:{line} imports {name}"
        for module, name, line in imported()
        if not lives_in(HOMES.get(name.split(".")[0], {""}), module)
    ]
    assert not strays, f"not their home: {', '.join(strays)}"


def test_records_need_the_standard_library_alone():
    homes = {"records", "models.runs", "untrusted_files"}
    strays = [
        f"{module}:{line} imports {name}"
        for module, name, line in imported()
        if lives_in(homes, module)
        and name.split(".")[0] not in sys.stdlib_module_names
        and not lives_in(homes, name)
    ]
    assert not strays, f"nodes have none of it: {', '.join(strays)}"


def test_sql_is_said_in_one_folder():
    strays = [
        f"{module}:{node.lineno} says {ast.unparse(node.func)}"
        for module, path in MODULES.items()
        if not lives_in(HOMES["sqlite3"], module)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and is_statement(node.func)
    ]
    assert not strays, f"statements: {', '.join(strays)}"


def test_heavy_libraries_load_only_when_they_are_needed():
    early = [
        f"{module}:{line} imports {name}"
        for module, name, line in imported(when=at_load)
        if (name.split(".")[0] in HEAVY and module not in LATE) or name in LATE
    ]
    assert not early, f"at load: {', '.join(early)}"


@pytest.mark.parametrize("name", SLIM)
def test_what_lists_of_jobs_and_supervisors_load_has_no_pydantic(name):
    pending, loaded = [f"batchai_magics.{name}"], {}
    while pending:
        module = pending.pop()
        if module in MODULES and module not in loaded:
            loaded[module] = [found for found, _ in imports(MODULES[module], at_load)]
            pending += loaded[module]
    assert not [module for module, names in loaded.items() if any(n.startswith("pydantic") for n in names)]


def unit(module):
    """The part of the package that a module belongs to: `backends.local`, `jobs`, `cell`."""
    first, *rest = module.split(".")[1:]
    return f"backends.{rest[0]}" if first == "backends" and rest else first


def metrics_layer(module, *, otherwise):
    """The layer of a module within `metrics`; `otherwise` for all other modules."""
    part = module.partition("batchai_magics.metrics.")[2].split(".")[0]
    return METRICS_LAYERS[part] if part else otherwise


def lives_in(homes, module):
    inside = module.removeprefix("batchai_magics").removeprefix(".")
    return any(not home or f"{inside}.".startswith(f"{home}.") for home in homes)


def layer(unit):
    name = unit if unit in LAYERS else "backends.*" if unit.startswith("backends") else unit
    assert name in LAYERS, f"{unit} is not in the order of layers"
    return LAYERS[name]


def is_statement(called):
    return ast.unparse(called).startswith(("db.exec", "connection.exec"))


def imported(*, when=ast.walk):
    """Every import of the package, by `import_module` too: the module, the dotted name, the line."""
    return [(module, *found) for module, path in MODULES.items() for found in imports(path, when)]


@functools.cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(path, when):
    """The dotted names that a file imports, each with its line."""
    return tuple(_imports(path, when))


def _imports(path, when):
    for node in when(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((name if name in MODULES else node.module, node.lineno) for name in full)
        elif isinstance(node, ast.Call) and is_literal_import(node):
            yield node.args[0].value, node.lineno


def is_literal_import(call):
    name = ast.unparse(call.func).rpartition(".")[2]
    return name in ("import_module", "__import__") and isinstance(call.args[0], ast.Constant)


def at_load(node):
    """The nodes that run when a module loads: none in functions, none for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        is_for_checkers = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not is_for_checkers and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from at_load(child)
