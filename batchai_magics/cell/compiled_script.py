"""A script with its code object, whose instructions say which global names it reads and binds."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from dis import EXTENDED_ARG, opmap

_GLOBAL_READS = ("LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")  # the second since Python 3.12
_READ_BY_CLASSES = {"__name__", "__annotations__"}  # by any class, for attributes of its own
_FLAG_BITS = {"LOAD_GLOBAL": 1} if sys.version_info >= (3, 11) else {}  # of an operand, below the index


@dataclass(frozen=True)
class CompiledScript:
    """A script that has no syntax error."""

    text: str
    code: types.CodeType

    @classmethod
    def of(cls, text: str, *, flags: int = 0) -> CompiledScript:
        """Compiles a script, without warnings, which the run will print; raises what `compile` raises."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cls(text, compile(text, "<cell>", "exec", flags, dont_inherit=True))

    @property
    def bound_names(self) -> set[str]:
        """The names that are bound in the global scope."""
        return _names_of(self.code, "STORE_NAME") | self.declared_names

    @property
    def declared_names(self) -> set[str]:
        """Those that are bound where a `global` statement declares them."""
        return set().union(*(_names_of(code, "STORE_GLOBAL") for code in _code_objects(self.code)))

    def read_names(self, among: Collection[str]) -> set[str]:
        """Those of the names that are read from the global scope if they are bound there."""
        names: set[str] = set()
        for code in _code_objects(self.code):
            if not set(among).isdisjoint(code.co_names):
                read = _names_of(code, "LOAD_NAME")  # by the script itself or the body of a class
                if code is not self.code:
                    read -= _names_of(code, "STORE_NAME") | _READ_BY_CLASSES
                names |= read.union(*(_names_of(code, operation) for operation in _GLOBAL_READS))
        return names & set(among)


def _code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, then those of the functions and classes in it."""
    pending = [code]
    while pending:
        code = pending.pop()
        yield code
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _names_of(code: types.CodeType, operation: str) -> set[str]:
    """The names that instructions of a kind refer to; `dis` says the same, and takes fifty times as long."""
    if operation not in opmap:  # of this Python
        return set()
    opcode, names = opmap[operation], set()
    opcodes, operands = code.co_code[::2], code.co_code[1::2]
    at = opcodes.find(opcode)
    while at >= 0:
        index, shift, before = operands[at], 8, at - 1
        while before >= 0 and opcodes[before] == EXTENDED_ARG:
            index |= operands[before] << shift
            shift, before = shift + 8, before - 1
        names.add(code.co_names[index >> _FLAG_BITS.get(operation, 0)])
        at = opcodes.find(opcode, at + 1)
    return names
