"""The script of a Python function: its source, what it uses of its module or notebook, and the call. Pure."""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import io
import json
import linecache
import pickle
import sys
import textwrap
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.cell.cell_script import CompiledScript
from batchai_magics.cell.notebook_variables import global_names, holds_secret
from batchai_magics.errors import UsageError

_ARGS, _KWARGS = "_args", "_kwargs"  # variables with the arguments of the call
_OBJECTS = "_objects"  # a variable with the pickled values that are made of the script's own classes
_LAZY_ANNOTATIONS = __future__.annotations.compiler_flag
_PROTOCOL = 4
_UNPICKLER = '''
import io as _io, operator as _operator, pickle as _pickle

class _Unpickler(_pickle.Unpickler):
    """Finds the classes and functions of {module} in this script."""
    def find_class(self, module, name):
        if module != {module!r} or name.partition(".")[0] not in globals():
            return super().find_class(module, name)
        first, _, rest = name.partition(".")
        return _operator.attrgetter(rest)(globals()[first]) if rest else globals()[first]
'''
_BLOCKS = ("body", "orelse", "finalbody", "handlers")  # where a statement holds others
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class FunctionScript:
    """A script that calls a function and assigns `result`, and the variables that it finds as its own."""

    text: str
    variables: Mapping[str, object] = field(repr=False)


def function_script(
    function: Callable[..., Any], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
) -> FunctionScript:
    """Makes the script that calls a function with these arguments.

    It contains the source of the function and of those functions and classes of its module or notebook that
    it uses, imports what they use of other modules, and gets the other global values as variables. A comment
    `#line 12 "train.py"` before a source says where it is from, for `run_function.py`.

    Raises:
        UsageError: The function is a lambda, a method or built in, uses variables of an enclosing function,
            or something that it uses cannot be sent; the message names it.
    """
    name = _check(function)
    parts = _Parts(function)
    parts.add(name, function)
    parts.add_arguments(args, kwargs or {})
    code = getattr(function, "__code__", None)
    lazy = ["from __future__ import annotations"] if code and code.co_flags & _LAZY_ANNOTATIONS else []
    call = f"result = {name}(*{_ARGS}, **{_KWARGS})"
    lines = [*lazy, *parts.imports.values(), *parts.unpickler(), "", *parts.sources.values(), "", call, ""]
    return FunctionScript("\n".join(lines), parts.values)


def _check(function: Callable[..., Any]) -> str:
    """The global name of the function."""
    name = getattr(function, "__qualname__", type(function).__name__)
    hint = "Define it with `def` at the top level of a file or a notebook cell."
    if not isinstance(inspect.unwrap(function), types.FunctionType):
        raise UsageError(f"run: {name} is a {type(function).__name__}, not a Python function", hint=hint)
    if function.__name__ == "<lambda>":
        raise UsageError("run: a lambda has no source of its own to send along", hint=hint)
    enclosed = inspect.unwrap(function).__code__.co_freevars
    names = _globals_of(function)
    bound = next((key for key, thing in names.items() if thing is function), "")
    if enclosed and not (bound and definition_source(bound, function, names)):
        text = f"run: {name} uses {', '.join(enclosed)} of the function around it"
        raise UsageError(text, hint=f"Make it a parameter: run({function.__name__}, args=(…,)).")
    return bound if enclosed else function.__name__


class _Parts:
    """What a function needs in a script: imports, sources and values, each by its name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._module = function.__module__
        self._names = _globals_of(function)
        self._in_work: list[str] = []  # names whose sources are being collected: they may refer to themselves
        self._late: dict[str, str] = {}  # values that need a class in work
        self.imports: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.values: dict[str, object] = {}
        self._objects: dict[str, bytes] = {}

    def add(self, name: str, thing: Any) -> None:
        """Adds what a global name stands for, with everything that its source uses."""
        if name in (*self.imports, *self.sources, *self.values, *self._in_work, *self._late):
            return
        module, qualified_name = self._module_of(thing), _qualified_name(thing)
        if isinstance(thing, types.ModuleType):
            self.imports[name] = f"import {thing.__name__} as {name}"
        elif module == self._module or (module and "<locals>" in qualified_name):
            self._add_definition(name, thing)
        elif module:
            first, _, inner = qualified_name.partition(".")
            self.imports[name] = f"from {module} import {first} as {name}"
            self.imports[name] += f"; {name} = {name}.{inner}" if inner else ""
        else:
            self._add_value(name, thing)

    def add_arguments(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Adds the arguments of the call."""
        for name, value in {**{f"args[{n}]": argument for n, argument in enumerate(args)}, **kwargs}.items():
            self._pickled(name, value)
        self._add_value(_ARGS, tuple(args))
        self._add_value(_KWARGS, dict(kwargs))

    def unpickler(self) -> Iterator[str]:
        """The code that loads values made of the script's own classes; nothing without such values."""
        if self._objects:
            self.values[_OBJECTS] = self._objects
            yield _UNPICKLER.format(module=self._module)

    def _module_of(self, thing: Any) -> str:
        """The module that it is defined in, by its name there; empty for a value."""
        if isinstance(thing, (type, types.FunctionType)):
            return str(thing.__module__)
        name = getattr(thing, "__module__", None) or ""
        if callable(thing) and getattr(sys.modules.get(name), getattr(thing, "__name__", ""), None) is thing:
            return str(name)
        return (
            self._module if callable(thing) and name == self._module and hasattr(thing, "__wrapped__") else ""
        )

    def _add_definition(self, name: str, thing: Any) -> None:
        definition = self._source(name, thing)
        if definition is None:
            text = f"run: the source of {name} is not known{self._user()}"
            raise UsageError(text, hint="Define it in a file or a notebook cell, and run that again.")
        self._in_work.append(name)
        script = CompiledScript.of(definition.text, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for used in global_names(script, self._names):
            module = str(getattr(self._names[used], "__module__", ""))
            if not (hasattr(builtins, used) and module.startswith("IPython.")):  # such as its `open`
                self.add(used, self._names[used])
        self._in_work.pop()
        line = (
            f"#line {definition.line} {json.dumps(definition.file, ensure_ascii=False)}\n"
            if definition.file
            else ""
        )
        self.sources[name] = f"{line}{definition.text}"
        if not self._in_work:
            self.sources |= self._late
            self._late.clear()

    def _source(self, name: str, thing: Any) -> Definition | None:
        """The statement that defines an object; then an assignment, if it was defined under another name."""
        defined_name = getattr(thing, "__name__", name)
        is_definition = isinstance(thing, (type, types.FunctionType))
        is_renamed = is_definition and defined_name != name and defined_name.isidentifier()
        if not is_renamed or "." in thing.__qualname__:
            return definition_source(name, thing, self._names)
        if self._names.get(defined_name) is thing:
            return Definition(f"{name} = {defined_name}\n", "", 0)
        definition = definition_source(defined_name, thing, self._names)
        return definition._replace(text=f"{definition.text}{name} = {defined_name}\n") if definition else None

    def _add_value(self, name: str, thing: Any) -> None:
        """Adds a value: as it is, or as a pickle that the script loads when its classes are defined."""
        try:
            data, needed = self._pickled(name, thing)
        except UsageError:
            if not callable(thing):
                raise
            self._add_definition(name, thing)
            return
        if name in needed:  # pickled by its name, as type variables are
            self._add_definition(name, thing)
        elif needed:
            self._add_object(name, thing, data, needed)
        else:
            self.values[name] = thing

    def _add_object(self, name: str, thing: Any, data: bytes, needed: Collection[str]) -> None:
        items = thing if isinstance(thing, tuple) else thing.values() if isinstance(thing, dict) else [thing]
        if any(holds_secret(getattr(item, "__dict__", item)) for item in items):
            text = f"run: {name} looks like it holds a secret, which does not belong in a file on the share"
            raise UsageError(text, hint="Put it into an environment variable, and name that with secret=[…].")
        for used in needed:
            self.add(used, self._names[used])
        self._objects[name] = data
        target = self._late if any(used in self._in_work for used in needed) else self.sources
        target[name] = f"{name} = _Unpickler(_io.BytesIO({_OBJECTS}[{name!r}])).load()\n"

    def _pickled(self, name: str, value: object) -> tuple[bytes, Collection[str]]:
        """The pickle of a value, and the names of this module that it refers to."""
        file = io.BytesIO()
        pickler = _Pickler(file, self._module, self._names)
        try:
            pickler.dump(value)
        except Exception as error:  # noqa: BLE001  objects' own methods may raise anything
            text = f"run: {name}, a {type(value).__name__}, cannot be sent{self._user()}: {error}"
            raise UsageError(text, hint="Make it in the function, from what can be sent.") from None
        return file.getvalue(), pickler.needed

    def _user(self) -> str:
        return f" ({self._in_work[-1]} uses it)" if self._in_work else ""


class _Pickler(pickle.Pickler):
    """Records which names of a module the pickled objects refer to.

    Attributes:
        needed: These names, without what follows a dot.
    """

    def __init__(self, file: io.BytesIO, module: str, names: Mapping[str, object]) -> None:
        super().__init__(file, protocol=_PROTOCOL)
        self._module, self._names = module, names
        self.needed: dict[str, None] = {}

    def persistent_id(self, thing: Any) -> None:
        """Called with each object that is pickled; all are pickled as usual."""
        if getattr(thing, "__module__", None) == self._module:
            first = _qualified_name(thing).partition(".")[0]
            is_global = isinstance(thing, (type, types.FunctionType)) or self._names.get(first) is thing
            if is_global and first in self._names:
                self.needed[first] = None


def _qualified_name(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", getattr(thing, "__name__", "")))


def _globals_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    names: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    return names


class Definition(NamedTuple):
    """A statement that defines a name: its text, its file or its cell (`In[3]`), and its line there."""

    text: str
    file: str
    line: int


class _Source(NamedTuple):
    """Python code: a file or a cell, and its text."""

    file: str
    text: str


def definition_source(name: str, thing: Any, names: Mapping[str, Any]) -> Definition | None:
    """The statement that defines a global name, with its decorators; None if it is not known."""
    function = inspect.unwrap(thing) if callable(thing) else thing  # maybe in a decorator that names it
    is_named = isinstance(function, types.FunctionType) and function.__name__ == name
    if is_named and not function.__code__.co_freevars:
        return _inspected(thing, names) or _statement(name, _cells(names))
    if isinstance(thing, type) and thing.__name__ == name:
        is_of_file = not _cells(names)
        definition = _inspected(thing, names) if is_of_file else None
        return definition or _statement(name, _class_sources(thing, names))
    return _statement(name, [*_cells(names), *_module(names)])


def _inspected(thing: Any, names: Mapping[str, Any]) -> Definition | None:
    try:
        unwrapped = inspect.unwrap(thing)
        lines, first = inspect.getsourcelines(unwrapped)
        file = inspect.getsourcefile(unwrapped) or ""
    except (OSError, TypeError):
        return None
    return Definition(textwrap.dedent("".join(lines)), _shown_file(file, names), first)


def _shown_file(file: str, names: Mapping[str, Any]) -> str:
    """A file as the user calls it: a cell by its number, a file below the working directory by that path."""
    text = "".join(linecache.getlines(file)).strip()
    cell = next((cell.file for cell in _cells(names) if cell.text.strip() == text), "")
    path, folder = Path(file), Path.cwd()
    return cell or (path.relative_to(folder).as_posix() if path.is_relative_to(folder) else file)


def _cells(names: Mapping[str, Any]) -> list[_Source]:
    """The cells of a notebook, the newest first; empty for a module."""
    cells = names.get("In")
    numbered = list(enumerate(cells)) if isinstance(cells, list) else []
    return [_Source(f"In[{n}]", cell) for n, cell in reversed(numbered) if isinstance(cell, str)]


def _module(names: Mapping[str, Any]) -> list[_Source]:
    module = sys.modules.get(names.get("__name__", ""))
    try:
        file = _shown_file(inspect.getsourcefile(module) or "", names) if module else ""
        return [_Source(file, inspect.getsource(module))] if module else []
    except (OSError, TypeError):  # it has no file
        return []


def _class_sources(thing: type, names: Mapping[str, Any]) -> Iterator[_Source]:
    """The cell that a method of the class comes from, then all cells."""
    for value in vars(thing).values():
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        code = getattr(function, "__code__", None)
        if code and function.__qualname__.startswith(f"{thing.__qualname__}."):
            lines = linecache.getlines(code.co_filename)
            yield _Source(_shown_file(code.co_filename, names), "".join(lines))
    yield from _cells(names)


def _statement(name: str, sources: Iterable[_Source]) -> Definition | None:
    """The last statement that binds a name, of the first source with one."""
    for source in sources:
        try:
            statements = [definition for definition, node in _statements(source) if name in _bound(node)]
        except (SyntaxError, ValueError):  # a cell that never ran
            continue
        if statements:
            return statements[-1]
    return None


def _statements(source: _Source, before: int = 0) -> Iterator[tuple[Definition, ast.stmt]]:
    """The statements of the global scope; those below a magic such as `%%time`, too.

    `before` is the number of lines before the source in its cell.
    """
    lines = source.text.splitlines(keepends=True)
    pending: list[ast.AST] = list(reversed(ast.parse(source.text).body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            decorators = getattr(node, "decorator_list", ())
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            text = textwrap.dedent("".join(lines[first - 1 : node.end_lineno])).rstrip() + "\n"
            yield Definition(text, source.file, before + first), node
        if (body := _magic_body(node)) is not None:
            yield from _statements(_Source(source.file, body), before=1)
        elif not isinstance(node, _OWN_SCOPE):
            pending += reversed([child for block in _BLOCKS for child in getattr(node, block, ())])


def _magic_body(node: ast.AST) -> str | None:
    """The cell below a magic, as IPython writes it: `get_ipython().run_cell_magic(NAME, LINE, BODY)`."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or getattr(call.func, "attr", "") != "run_cell_magic":
        return None
    body = call.args[-1] if call.args else None
    return body.value if isinstance(body, ast.Constant) and isinstance(body.value, str) else None


def _bound(node: ast.stmt) -> set[str]:
    """The names that a definition, an import or an assignment binds."""
    if isinstance(node, _OWN_SCOPE):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) and node.value else targets
    return {target.id for target in targets if isinstance(target, ast.Name)}
