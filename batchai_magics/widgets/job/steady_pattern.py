"""Regular expressions whose time grows with the text alone, however they repeat.

For those that Python's own search could hang on. A state machine is made, as far as a text needs it, from
Python's parse of the expression. It knows what is regular: classes, groups, alternatives, repetitions, line
ends and word boundaries; no back-reference and no look-around. A byte of text costs about 0.1 µs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from batchai_magics.errors import UsageError

try:
    from re import _constants as names  # type: ignore[attr-defined]  # private, and so not in typeshed
    from re import _parser as parser  # type: ignore[attr-defined]  # the same
except ImportError:  # Python 3.10
    import sre_constants as names
    import sre_parse as parser

MOST_STATES = 4000
MOST_LOOPS = 2  # in a row, which Python's search takes well enough
FEW = 8  # repetitions of something that varies, the same

Items = Sequence[tuple[Any, Any]]  # a parsed expression: what, and its arguments
Bytes = frozenset[int]
Holds = Callable[[int, int], bool]  # whether a place will do: what stands before it, the byte behind it

_MATCH = 0  # the state in which the expression has matched
_END = 256  # the byte behind a line's last one
_START, _OTHER, _WORDY = range(3)  # what stands before a place
_ALL = frozenset(range(256))
_WORD = frozenset(i for i in range(256) if re.match(rb"\w", bytes([i])))
_CLASSES = {
    names.CATEGORY_DIGIT: frozenset(b"0123456789"),
    names.CATEGORY_SPACE: frozenset(b" \t\n\r\f\v"),
    names.CATEGORY_WORD: _WORD,
}
_CLASSES |= {
    names.CATEGORY_NOT_DIGIT: _ALL - _CLASSES[names.CATEGORY_DIGIT],
    names.CATEGORY_NOT_SPACE: _ALL - _CLASSES[names.CATEGORY_SPACE],
    names.CATEGORY_NOT_WORD: _ALL - _WORD,
}
_HOLDS: dict[Any, Holds] = {
    names.AT_BEGINNING: lambda before, _: before == _START,
    names.AT_BEGINNING_STRING: lambda before, _: before == _START,
    names.AT_END: lambda _, byte: byte == _END,
    names.AT_END_STRING: lambda _, byte: byte == _END,
    names.AT_BOUNDARY: lambda before, byte: (before == _WORDY) != (byte in _WORD),
    names.AT_NON_BOUNDARY: lambda before, byte: (before == _WORDY) == (byte in _WORD),
}
_LOOPS = (names.MAX_REPEAT, names.MIN_REPEAT)


def is_risky(source: bytes) -> bool:
    """Whether Python's own search could take forever: for loops within loops, or many of them."""
    items = parser.parse(source)
    return _has_nested(items) or sum(1 for _ in _open_loops(items)) > MOST_LOOPS


class SteadyPattern:
    """An expression that is searched in time that grows with the text alone; capitals do not count.

    Raises UsageError for one that is not regular, or of more than `MOST_STATES` states.
    """

    def __init__(self, source: bytes) -> None:
        self._sets: list[Bytes | None] = [None]
        self._nexts: list[list[int]] = [[]]
        self._holds: list[Holds | None] = [None]
        self._first = self._sequence(parser.parse(source), _MATCH)
        self._forget()

    def is_in(self, line: bytes) -> bool:
        """Whether the expression matches somewhere in a line; what matches nothing does not count."""
        state = 0
        for byte in line:
            following = self._table[state].get(byte)
            state = self._step(state, byte) if following is None else following
            if state < 0:
                return True
        return self._step(state, _END) < 0

    # The machine with many states at once

    def _sequence(self, items: Items, then: int) -> int:
        """The state that begins these items and goes on to `then`."""
        for what, argument in reversed(list(items)):
            then = self._one(what, argument, then)
        return then

    def _one(self, what: Any, argument: Any, then: int) -> int:
        if what in _LOOPS:
            return self._loop(argument, then)
        if what is names.BRANCH:
            return self._state(nexts=[self._sequence(branch, then) for branch in argument[1]])
        if what is names.SUBPATTERN:
            return self._sequence(argument[3], then)
        if what is names.AT and argument in _HOLDS:
            return self._state(nexts=[then], holds=_HOLDS[argument])
        return self._state(_bytes_of(what, argument), [then])

    def _loop(self, argument: tuple[int, int, Items], then: int) -> int:
        least, most, items = argument
        start = then
        if most == names.MAXREPEAT:
            start = self._state(nexts=[then])
            self._nexts[start].insert(0, self._sequence(items, start))
        else:
            for _ in range(most - least):
                start = self._state(nexts=[self._sequence(items, start), then])
        for _ in range(least):
            start = self._sequence(items, start)
        return start

    def _state(
        self, bytes_: Bytes | None = None, nexts: Iterable[int] = (), holds: Holds | None = None
    ) -> int:
        if len(self._sets) >= MOST_STATES:
            raise UsageError("no valid expression: it is too long")
        self._sets.append(bytes_)
        self._nexts.append(list(nexts))
        self._holds.append(holds)
        return len(self._sets) - 1

    # The machine with one state at a time, made as it is needed

    def _forget(self) -> None:
        self._keys: list[tuple[frozenset[int], int]] = [(frozenset(), _START)]
        self._numbers = {self._keys[0]: 0}
        self._table: list[dict[int, int]] = [{}]

    def _step(self, state: int, byte: int) -> int:
        """The state after a byte; less than 0 when the expression has matched before it."""
        within, before = self._keys[state]
        open_states = self._closure(within, before, byte)
        if _MATCH in open_states:
            found = -1
        else:
            open_states |= self._closure({self._first}, before, byte)
            after = frozenset(
                following
                for one in open_states
                if byte in (self._sets[one] or ())
                for following in self._nexts[one]
            )
            found = self._number((after, _WORDY if byte in _WORD else _OTHER))
        if state < len(self._table):
            self._table[state][byte] = found
        return found

    def _closure(self, states: Iterable[int], before: int, byte: int) -> set[int]:
        """All states that can be reached from these without taking a byte."""
        waiting, found = list(states), set(states)
        while waiting:
            one = waiting.pop()
            holds = self._holds[one]
            if self._sets[one] is None and (holds is None or holds(before, byte)):
                new = [following for following in self._nexts[one] if following not in found]
                found.update(new)
                waiting += new
        return found

    def _number(self, key: tuple[frozenset[int], int]) -> int:
        number = self._numbers.get(key)
        if number is not None:
            return number
        if len(self._keys) >= MOST_STATES:
            self._forget()
        self._keys.append(key)
        self._table.append({})
        self._numbers[key] = len(self._keys) - 1
        return len(self._keys) - 1


def _bytes_of(what: Any, argument: Any) -> Bytes:
    """The bytes that one sign of an expression stands for, be they capitals or not."""
    if what is names.LITERAL:
        return _either_case([argument])
    if what is names.NOT_LITERAL:
        return _ALL - _either_case([argument])
    if what is names.ANY:
        return _ALL - {10}
    if what is names.RANGE:
        return _either_case(range(argument[0], argument[1] + 1))
    if what is names.CATEGORY:
        return _CLASSES[argument]
    if what is names.IN:
        is_negated = argument[0][0] is names.NEGATE
        found = frozenset[int]().union(*(_bytes_of(*item) for item in argument[is_negated:]))
        return _ALL - found if is_negated else found
    word = str(what).lower().replace("_", " ")
    raise UsageError(f"no valid expression: with such repetitions, {word} could take forever")


def _either_case(bytes_: Iterable[int]) -> Bytes:
    found = bytes(bytes_)
    return frozenset(found + found.swapcase())


def _has_nested(items: Items, *, is_within: bool = False) -> bool:
    """Whether something of no fixed length stands within an open loop."""
    for what, argument in items:
        is_loop = what in _LOOPS
        if is_within and (what is names.BRANCH or (is_loop and argument[0] != argument[1])):
            return True
        is_open = is_within or (is_loop and argument[1] > FEW)
        if any(_has_nested(inner, is_within=is_open) for inner in _inner(what, argument)):
            return True
    return False


def _open_loops(items: Items) -> Iterable[Any]:
    for what, argument in items:
        if what in _LOOPS and argument[1] == names.MAXREPEAT:
            yield argument
        for inner in _inner(what, argument):
            yield from _open_loops(inner)


def _inner(what: Any, argument: Any) -> list[Items]:
    if what in _LOOPS:
        return [argument[2]]
    if what is names.BRANCH:
        return list(argument[1])
    return [argument[3]] if what is names.SUBPATTERN else []
