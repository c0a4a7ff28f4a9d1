"""The script of a Python function: its source, what it uses of its module, and the call. Pure."""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from batchai_magics.cell.notebook_variables import free_names
from batchai_magics.errors import UsageError

_ARGS, _KWARGS = "_args", "_kwargs"  # variables with the arguments of the call
_LAZY_ANNOTATIONS = __future__.annotations.compiler_flag


@dataclass(frozen=True)
class FunctionScript:
    """A script that calls a function and assigns `result`, and the variables that it finds as its own."""

    text: str
    variables: Mapping[str, object] = field(repr=False)


def function_script(
    function: Callable[..., Any], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
) -> FunctionScript:
    """Makes the script that calls a function with these arguments.

    It contains the source of the function and of those functions and classes of its module that it uses,
    imports what they use of other modules, and gets the other global values as variables.

    Raises:
        UsageError: The function is a lambda, a method or built in, uses variables of an enclosing function,
            or its source is not known.
    """
    _check(function)
    parts = _Parts(function.__module__)
    parts.add(function.__name__, function)
    code = getattr(function, "__code__", None)
    lazy = ["from __future__ import annotations"] if code and code.co_flags & _LAZY_ANNOTATIONS else []
    call = f"result = {function.__name__}(*{_ARGS}, **{_KWARGS})"
    text = "\n".join([*lazy, *parts.imports.values(), "", *parts.sources.values(), "", call, ""])
    return FunctionScript(text, {**parts.values, _ARGS: tuple(args), _KWARGS: dict(kwargs or {})})


def _check(function: Callable[..., Any]) -> None:
    name = getattr(function, "__qualname__", type(function).__name__)
    hint = "Define it with `def` at the top level of a file or a notebook cell."
    if not isinstance(inspect.unwrap(function), types.FunctionType):
        raise UsageError(f"run: {name} is a {type(function).__name__}, not a Python function", hint=hint)
    if function.__name__ == "<lambda>":
        raise UsageError("run: a lambda has no source of its own to send along", hint=hint)
    if enclosed := inspect.unwrap(function).__code__.co_freevars:
        text = f"run: {name} uses {', '.join(enclosed)} of the function around it"
        raise UsageError(text, hint=f"Make it a parameter: run({function.__name__}, args=(…,)).")


class _Parts:
    """What a function needs in a script: imports, sources and values, each by its name."""

    def __init__(self, module: str) -> None:
        self._module = module
        self.imports: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.values: dict[str, object] = {}

    def add(self, name: str, thing: Any) -> None:
        """Adds what a global name stands for, with everything that its source uses."""
        if name in (*self.imports, *self.sources, *self.values):
            return
        if isinstance(thing, types.ModuleType):
            self.imports[name] = f"import {thing.__name__} as {name}"
        elif isinstance(thing, (type, types.FunctionType)):
            self._add_definition(name, thing)
        elif _is_of_module(thing):
            self.imports[name] = f"from {thing.__module__} import {thing.__name__} as {name}"
        else:
            self.values[name] = thing

    def _add_definition(self, name: str, thing: Any) -> None:
        if thing.__module__ != self._module:
            self.imports[name] = f"from {thing.__module__} import {thing.__qualname__} as {name}"
            return
        source = _source_of(thing)
        self.imports[name] = ""  # in work: it may refer to itself
        for used in free_names(source):
            names = _globals_of(thing)
            if used in names:
                self.add(used, names[used])
        del self.imports[name]
        self.sources[name] = source if name == thing.__name__ else f"{source}{name} = {thing.__name__}\n"


def _is_of_module(thing: Any) -> bool:
    """Whether it is found by name in its module, as built-in functions are."""
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    return callable(thing) and getattr(module, getattr(thing, "__name__", ""), None) is thing


def _globals_of(thing: Any) -> Mapping[str, Any]:
    if isinstance(thing, types.FunctionType):
        names: dict[str, Any] = inspect.unwrap(thing).__globals__
        return names
    return vars(sys.modules[thing.__module__])


def _source_of(thing: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError) as error:
        text = f"run: the source of {thing.__qualname__} is not known: {error}"
        raise UsageError(text, hint="Define it in a file or a notebook cell.") from None
