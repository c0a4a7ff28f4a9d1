"""The script of a Python function: its source, what it uses of its module, and the call. Pure."""

from __future__ import annotations
import __future__

import builtins
import inspect
import io
import json
import pickle
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from batchai_magics.cell.definition_source import Definition, definition_source
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
    bound = next((each for each, thing in names.items() if thing is function), "")
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
        module, own = self._module_of(thing), _qualified_name(thing)
        if isinstance(thing, types.ModuleType):
            self.imports[name] = f"import {thing.__name__} as {name}"
        elif module == self._module or (module and "<locals>" in own):
            self._add_definition(name, thing)
        elif module:
            first, _, inner = own.partition(".")
            self.imports[name] = f"from {module} import {first} as {name}"
            self.imports[name] += f"; {name} = {name}.{inner}" if inner else ""
        else:
            self._add_value(name, thing)

    def add_arguments(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Adds the arguments of the call."""
        for name, value in {**{f"args[{n}]": each for n, each in enumerate(args)}, **kwargs}.items():
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
        found = self._source(name, thing)
        if found is None:
            text = f"run: the source of {name} is not known{self._user()}"
            raise UsageError(text, hint="Define it in a file or a notebook cell, and run that again.")
        self._in_work.append(name)
        for used in global_names(found.text):
            if used in self._names and not _is_of_ipython(used, self._names[used]):
                self.add(used, self._names[used])
        self._in_work.pop()
        line = f"#line {found.line} {json.dumps(found.file, ensure_ascii=False)}\n" if found.file else ""
        self.sources[name] = f"{line}{found.text}"
        if not self._in_work:
            self.sources |= self._late
            self._late.clear()

    def _source(self, name: str, thing: Any) -> Definition | None:
        """The statement that defines it; of what has been defined by another name, that and an assignment."""
        own = getattr(thing, "__name__", name)
        is_renamed = isinstance(thing, (type, types.FunctionType)) and own != name and own.isidentifier()
        if not is_renamed or "." in thing.__qualname__:
            return definition_source(name, thing, self._names)
        if self._names.get(own) is thing:
            return Definition(f"{name} = {own}\n", "", 0)
        found = definition_source(own, thing, self._names)
        return found._replace(text=f"{found.text}{name} = {own}\n") if found else None

    def _add_value(self, name: str, thing: Any) -> None:
        """Adds a value: as it is, or as a pickle that the script loads when its classes are defined."""
        if callable(thing) and not self._can_pickle(thing):
            self._add_definition(name, thing)
            return
        data, needed = self._pickled(name, thing)
        if name in needed:  # pickled by its name, as type variables are
            self._add_definition(name, thing)
        elif needed:
            self._add_object(name, thing, data, needed)
        else:
            self.values[name] = thing

    def _add_object(self, name: str, thing: Any, data: bytes, needed: Collection[str]) -> None:
        items = thing if isinstance(thing, tuple) else thing.values() if isinstance(thing, dict) else [thing]
        if any(holds_secret(getattr(each, "__dict__", each)) for each in items):
            text = f"run: {name} looks like it holds a secret, which does not belong in a file on the share"
            raise UsageError(text, hint="Put it into an environment variable, and name that with secret=[…].")
        for each in needed:
            self.add(each, self._names[each])
        self._objects[name] = data
        places = self._late if any(each in self._in_work for each in needed) else self.sources
        places[name] = f"{name} = _Unpickler(_io.BytesIO({_OBJECTS}[{name!r}])).load()\n"

    def _can_pickle(self, thing: Any) -> bool:
        try:
            self._pickled("", thing)
        except UsageError:
            return False
        return True

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
    """Notes the names of a module that what it pickles refers to.

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


def _is_of_ipython(name: str, thing: Any) -> bool:
    """Whether it is what IPython puts in place of a function of Python, such as `open`."""
    return hasattr(builtins, name) and str(getattr(thing, "__module__", "")).startswith("IPython.")


def _qualified_name(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", getattr(thing, "__name__", "")))


def _globals_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    names: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    return names
