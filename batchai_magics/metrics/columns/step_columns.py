r"""Step lines of a buffer as columns, eight bytes of each line at a time.

A number is read from the eight bytes where it stands, all records at once: its digits are moved to the end of
the word and added up in three multiplications. Numbers too wide for that, and whatever else is not
`STEP\timages/sec: R +/- U (jitter = J)\tLOSS[\tT1\tT5][ TIME]` to the letter, with up to seven tabs or blanks
for each, are left to the parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Words = NDArray[np.uint64]
    Mask = NDArray[np.bool_]


def _each_byte(value: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([value]) * 8, "little"))


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


RATE = b"images/sec: "
MARGIN_BYTES = 512
"""So much must lie on both sides of the text: what stands behind no number is looked for anywhere near."""

_ONE, _EIGHT = np.uint64(1), np.uint64(8)
_ONES, _DOTS, _ZEROS = _each_byte(1), _each_byte(ord(".")), _each_byte(ord("0"))
_TABS, _BLANKS = _each_byte(ord("\t")), _each_byte(ord(" "))
_HIGH, _LOW, _TO_HIGH = _each_byte(0x80), _each_byte(0x7F), _each_byte(0x80 - 10)
NEWLINE = ord("\n")
_TAB, _BLANK = ord("\t"), ord(" ")
_ZERO, _NINE = ord("0"), ord("9")


@dataclass(frozen=True)
class Steps:
    """The step records at some places of a buffer, a row each; only rows with `is_plain` hold."""

    is_plain: Mask
    is_joined: Mask  # the step begins where the record before ends
    begin: Array  # of the step's digits …
    end: Array  # … and of the record
    step: Array
    numbers: tuple[Array, Array, Array, Array]  # images/sec, uncertainty, jitter, loss
    accuracies: tuple[Array, Array]
    has_accuracy: Mask
    appended: Array  # the time behind the record, in seconds since 1970, or NaN


def read_steps(buffer: bytearray, places: Array) -> Steps:
    """The records whose `images/sec: ` stand at these places; the rest of a step is not read."""
    text, words = np.frombuffer(buffer, np.uint8), unaligned(buffer, np.uint64)
    rate, width, is_rate = _decimal(words[places + len(RATE)], 1)
    place = places + len(RATE) + width
    is_plain = is_rate & _stands(words, place, b" +/- ")
    uncertainty, width, is_number = _decimal(words[place + 5], 1)
    place = place + 5 + width
    is_plain &= is_number & _stands(words, place, b" (jitter = ")
    place = place + 11
    jitter, width, is_number = _decimal(words[place], 1)
    place = place + width
    blanks = _blanks_at(text, words, place + 1)
    is_plain &= is_number & (text[place] == ord(")")) & _is_counted(blanks)
    place = place + 1 + blanks
    loss, width, is_number = _loss(words[place])
    end, accuracies, has_accuracy, is_read = _accuracies(text, words, place + width)
    is_plain &= is_number & is_read
    before = np.concatenate((np.zeros(1, np.int64), np.where(is_plain, end, 0)[:-1]))[: len(places)]
    appended, is_read = _appended(text, words, end)
    step, begin, is_step = _steps(text, words, places, before)
    return Steps(
        is_plain & is_step & is_read,
        begin == before,
        begin,
        end,
        step,
        (rate, uncertainty, jitter, loss),
        accuracies,
        has_accuracy,
        appended,
    )


def digits_before(words: Words, places: Array, widest: Array | int = 8) -> tuple[Words, Array]:
    """The number whose last digit stands left of each place, and how many digits it has: at most `widest`."""
    word = words[places - 8] ^ _ZEROS
    others = _not_digits(word)
    last_other = (_log2(others) >> 3) * (others != 0) - (others == 0)
    width = np.minimum(7 - last_other, widest)
    foreign = ((8 - width) << 3).astype(np.uint64)
    kept = (word >> foreign) << foreign
    return _value(kept), width


def _steps(text: Array, words: Words, places: Array, before: Array) -> tuple[Array, Array, Mask]:
    """Steps: the digits left of the blanks left of each place, back to the end of the record before."""
    blanks = _blanks_before(text, words, places)
    end = places - blanks
    value, width = digits_before(words, end, np.maximum(end - before, 0))
    begin = end - width
    is_whole = (width < 8) | (begin == before)
    return value.astype(np.int64), begin, _is_counted(blanks) & is_whole & (width > 0) & (value > 0)


def _decimal(word: Words, decimals: int) -> tuple[Array, Array, Mask]:
    """The decimal number at the start of each word, its width, and whether it is one."""
    dots = word ^ _DOTS
    dots = (dots - _ONES) & ~dots & _HIGH
    dot = (dots & (~dots + _ONE)) >> np.uint64(7)  # 1 in the first dot's byte
    whole = dot - _ONE
    kept = (whole << np.uint64(8 * decimals)) | np.uint64((1 << 8 * decimals) - 1)
    digits = (((word & whole) | ((word >> _EIGHT) & ~whole)) ^ _ZEROS) & kept
    place = _log2(dot)
    is_number = (dot > 1) & (place <= 8 * (7 - decimals)) & (_not_digits(digits) == 0)
    shift = np.where(is_number, 8 * (8 - decimals) - place, 0).astype(np.uint64)
    return _value(digits << shift) / 10**decimals, (place >> 3) + decimals + 1, is_number


def _loss(word: Words) -> tuple[Array, Array, Mask]:
    loss, width, is_number = _decimal(word, 3)
    start = word & np.uint64(0xFFFFFF)
    for text in (b"nan", b"inf"):
        is_text = start == _word(text)
        if is_text.any():
            loss, width = np.where(is_text, float(text), loss), np.where(is_text, 3, width)
            is_number |= is_text
    return loss, width, is_number


def _accuracies(text: Array, words: Words, ends: Array) -> tuple[Array, tuple[Array, Array], Mask, Mask]:
    """Where the record ends, its accuracies, whether they are there, and whether that could be told."""
    has_accuracy = np.zeros(len(ends), np.bool_)
    top_1, top_5 = np.full(len(ends), np.nan), np.full(len(ends), np.nan)
    is_told = ~_is_blank(text[ends])
    rows = np.flatnonzero(~is_told)
    if len(rows):
        blanks = _blanks_at(text, words, ends[rows])
        place = ends[rows] + blanks
        first, width, is_first = _decimal(words[place], 3)
        gap = _blanks_at(text, words, place + 5)
        second, other, is_second = _decimal(words[place + 5 + gap], 3)
        are_there = (
            is_first & is_second & (width == 5) & (other == 5) & _is_counted(gap) & _is_counted(blanks)
        )
        top_1[rows], top_5[rows] = np.where(are_there, first, np.nan), np.where(are_there, second, np.nan)
        has_accuracy[rows] = are_there
        is_told[rows] = are_there | (_is_counted(blanks) & _is_no_accuracy(text[place], text[place + 1]))
        ends = ends.copy()
        ends[rows] = np.where(are_there, place + 10 + gap, ends[rows])
    return ends, (top_1, top_5), has_accuracy, is_told


def _appended(text: Array, words: Words, ends: Array) -> tuple[Array, Mask]:
    """The times that wrappers append, NaN without one, and whether that could be told."""
    times, is_told = np.full(len(ends), np.nan), ~_is_blank(text[ends])
    rows = np.flatnonzero(~is_told)
    if len(rows):
        blanks = _blanks_at(text, words, ends[rows])
        place = ends[rows] + blanks
        head, tail = words[place] ^ _ZEROS, (text[place + 8] - _ZERO, text[place + 9] - _ZERO)
        is_time = (_not_digits(head) == 0) & (tail[0] < 10) & (tail[1] < 10) & (text[place + 10] == NEWLINE)
        seconds = _value(head) * 100.0 + tail[0] * 10.0 + tail[1]
        times[rows] = np.where(is_time, seconds, np.nan)
        is_told[rows] = _is_counted(blanks) & (is_time | (text[place] != ord("1")))
        times[rows[text[place] != ord("1")]] = np.nan
    return times, is_told


def _is_no_accuracy(first: Array, second: Array) -> Mask:
    """Whether text behind a blank cannot begin an accuracy at all."""
    is_digit = (first >= _ZERO) & (first <= _NINE)
    is_other = ~is_digit & ~_is_blank(first) & (first != ord("n"))
    result: Mask = is_other | (is_digit & (second != ord(".")))
    return result


def _stands(words: Words, places: Array, text: bytes) -> Mask:
    """Whether a text of five bytes or more stands at each place."""
    head = text[:8]
    is_there: Mask = words[places] & np.uint64((1 << 8 * len(head)) - 1) == _word(head)
    return is_there if len(text) <= 8 else is_there & _stands(words, places + len(text) - 8, text[-8:])


def _is_blank(char: Array) -> Mask:
    result: Mask = (char == _TAB) | (char == _BLANK)
    return result


def _is_counted(blanks: Array) -> Mask:
    """Whether there is a blank or more, and not so many that there may be more of them."""
    result: Mask = (blanks > 0) & (blanks < 8)
    return result


def _blanks_at(text: Array, words: Words, places: Array) -> Array:
    """How many blanks stand from each place on, at most eight."""
    count = _is_blank(text[places]).astype(np.int64)
    rows = np.flatnonzero(count & _is_blank(text[places + 1]))
    if len(rows):
        others = _not_blanks(words[places[rows]])
        count[rows] = np.where(others == 0, 8, _log2(others & (~others + _ONE)) >> 3)
    return count


def _blanks_before(text: Array, words: Words, places: Array) -> Array:
    """How many blanks stand left of each place, at most eight."""
    count = _is_blank(text[places - 1]).astype(np.int64)
    rows = np.flatnonzero(count & _is_blank(text[places - 2]))
    if len(rows):
        others = _not_blanks(words[places[rows] - 8])
        count[rows] = np.where(others == 0, 8, 7 - (_log2(others) >> 3))
    return count


def _not_blanks(values: Words) -> Words:
    """The high bit of each byte that is neither a tab nor a blank."""
    tabs, blanks = values ^ _TABS, values ^ _BLANKS
    return (((tabs & _LOW) + _LOW) | tabs) & (((blanks & _LOW) + _LOW) | blanks) & _HIGH


def _not_digits(values: Words) -> Words:
    """The high bit of each byte whose value is over nine."""
    return (((values & _LOW) + _TO_HIGH) | values) & _HIGH


def _log2(values: Words) -> Array:
    """The place of the highest bit; nothing that holds for 0."""
    return (values.astype(np.float64).view(np.int64) >> 52) - 1023


def _value(digits: Words) -> Words:
    """The number that eight digits, the first one in the lowest byte, make."""
    pairs = (digits * np.uint64(10) + (digits >> _EIGHT)) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(100) + (pairs >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (fours * np.uint64(10_000) + (fours >> np.uint64(32))) & np.uint64(0xFFFFFFFF)


def unaligned(buffer: bytearray, dtype: type[Any]) -> NDArray[Any]:
    """The little-endian words of a buffer that begin at each of its bytes."""
    word = np.dtype(dtype).newbyteorder("<")
    return np.ndarray((len(buffer) - word.itemsize + 1,), word, buffer, 0, (1,))
