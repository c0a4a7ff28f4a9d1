"""The labels that runs are found by: tags, a note, parameters; several processes may change them at once."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

BASELINE = "baseline"  # the tag of at most one run of an experiment: what others are compared with
SWEEP = "sweep:"  # before a sweep's name: the tag of its trials
MAX_TAGS = 50
MAX_NOTE = 10_000  # characters

Parameter = str | int | float | bool
MAX_PARAMETERS = 100
MAX_LENGTH = 200  # characters of a text, and of a name
_ASSIGNMENT = re.compile(r"\+{0,2}([A-Za-z_][\w./-]*)=(.*)", re.DOTALL)  # also of hydra
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_FLOAT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_TRUTH = {"true": True, "false": False}


def of_arguments(arguments: str) -> dict[str, Parameter]:
    """The parameters on a command line: `--lr 0.1`, `--lr=0.1`, `lr=0.1`; a flag alone is true."""
    try:
        words = shlex.split(arguments)
    except ValueError:  # an unclosed quote, which the job's shell will report
        words = arguments.split()
    parameters: dict[str, Parameter] = {}
    index = 0
    while index < len(words):
        word, following = words[index], words[index + 1] if index + 1 < len(words) else None
        index += 1
        if match := _OPTION.fullmatch(word):
            text = match[2]
            if text is None and following is not None and _is_value(following):
                text, index = following, index + 1
            parameters[match[1].replace("-", "_")] = True if text is None else value_of(text)
        elif match := _ASSIGNMENT.fullmatch(word):
            parameters[match[1]] = value_of(match[2])
    return bounded(parameters)


def is_parameter(value: object) -> bool:
    """Whether a value can be a parameter: it fits into a column."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (bool, int)) or (isinstance(value, str) and len(value) <= MAX_LENGTH)


def bounded(parameters: Mapping[str, object]) -> dict[str, Parameter]:
    """The first parameters that, with their names, fit into a column: numbers, truth values, short texts."""
    fitting: dict[str, Parameter] = {}
    for name, value in parameters.items():
        if is_parameter(value) and 0 < len(name) <= MAX_LENGTH and len(fitting) < MAX_PARAMETERS:
            fitting[name] = value  # type: ignore[assignment]  # `is_parameter` has checked it
    return fitting


def value_of(text: str) -> Parameter:
    """The number or truth value that a text stands for, or the text."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return _TRUTH.get(text.lower(), text)


def _is_value(word: str) -> bool:
    """Whether a word is the value of the option before it: no option, but perhaps a negative number."""
    return not word.startswith("-") or _FLOAT.fullmatch(word) is not None


class Labels(NamedTuple):
    """The labels of a run; `patterns` are the regular expressions of its metrics (`--metric`) by name."""

    tags: tuple[str, ...] = ()
    note: str = ""
    parameters: Mapping[str, Parameter] = {}
    patterns: Mapping[str, str] = {}

    def to_json(self) -> dict[str, Any]:
        """The labels as JSON, without what is empty."""
        data = {
            "tags": list(self.tags),
            "note": self.note,
            "parameters": dict(self.parameters),
            "patterns": dict(self.patterns),
        }
        return {name: value for name, value in data.items() if value}

    def with_parameters(self, more: Mapping[str, Parameter]) -> Labels:
        """The labels with further parameters, which replace parameters of the same name."""
        return self._replace(parameters=bounded({**self.parameters, **more})) if more else self

    def facts(self) -> Iterator[tuple[str, str]]:
        """The labels as pairs of title and text, without those that are empty."""
        parameters = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        texts = {"tags": ", ".join(self.tags), "note": self.note, "parameters": parameters}
        yield from ((title, text) for title, text in texts.items() if text)

    def to_text(self) -> str:
        """The text of the file `labels.json`."""
        return json.dumps(self.to_json(), ensure_ascii=False)

    @classmethod
    def from_json(cls, data: object) -> Labels:
        """Reads the JSON of `to_json`; what is no label is left out."""
        if not isinstance(data, Mapping):
            return cls()
        tags, note, parameters = data.get("tags"), data.get("note"), data.get("parameters")
        return cls(
            tuple(map(str, tags)) if isinstance(tags, list) else (),
            note if isinstance(note, str) else "",
            bounded(parameters) if isinstance(parameters, Mapping) else {},
            _patterns(data.get("patterns")),
        )


class LabelChange(NamedTuple):
    """A change of labels, which keeps what another process changes at the same time."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    note: str | None = None  # None: as it is
    parameters: Mapping[str, Parameter] = {}
    patterns: Mapping[str, str] = {}

    def applied(self, labels: Labels) -> Labels:
        """The changed labels; raises ValueError if there are too many tags, or the note is too long."""
        removed = {tag.lower() for tag in self.remove}
        remaining = [tag for tag in labels.tags if tag.lower() not in removed]
        present = {tag.lower() for tag in remaining}
        new = dict.fromkeys(tag for tag in self.add if tag.lower() not in present)
        tags = (*remaining, *new)
        if len(tags) > MAX_TAGS:
            raise ValueError(f"a run has at most {MAX_TAGS} tags")
        note = labels.note if self.note is None else self.note
        if len(note) > MAX_NOTE:
            raise ValueError(f"a note has at most {MAX_NOTE} characters")
        patterns = {**labels.patterns, **self.patterns}
        return Labels(tags, note, bounded({**labels.parameters, **self.parameters}), patterns)

    def to_json(self) -> dict[str, Any]:
        """The change as JSON."""
        return {
            **self._asdict(),
            "parameters": dict(self.parameters),
            "patterns": dict(self.patterns),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LabelChange:
        """Reads the JSON of `to_json`; raises ValueError if the tags are no list of texts."""
        note, parameters = data.get("note"), data.get("parameters")
        return cls(
            _texts(data.get("add")),
            _texts(data.get("remove")),
            None if note is None else str(note),
            bounded(parameters) if isinstance(parameters, Mapping) else {},
            _patterns(data.get("patterns")),
        )


def varying_parameters(
    labels: Iterable[Labels], limit: int | None = None, *, least_share: float = 0.0
) -> list[str]:
    """The names of up to `limit` parameters that differ between runs; for a single run, of any parameters.

    Parameters that less than `least_share` of the runs with parameters have are left out.
    """
    rows = [item.parameters for item in labels if item.parameters]
    counts = Counter(name for row in rows for name in row)
    names = [name for name, count in counts.items() if count >= least_share * len(rows)]
    differing = [name for name in names if len({str(row.get(name)) for row in rows}) > 1]
    return (differing or (names if len(rows) == 1 else []))[:limit]


def _patterns(value: object) -> dict[str, str]:
    """The expressions by name; anything else is left out."""
    items = value.items() if isinstance(value, Mapping) else ()
    return {name: text for name, text in items if isinstance(name, str) and isinstance(text, str)}


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        raise ValueError("tags are a list of texts")
    return tuple(value)


MAX_TAG_LENGTH = 100  # characters


def check_tags(tags: Iterable[object]) -> tuple[str, ...]:
    """The tags without duplicates.

    Raises:
        ValueError: One is not a word: empty, too long, or with a comma or white space.
    """
    words = list(tags)
    for tag in words:
        if (
            not isinstance(tag, str)
            or not tag
            or len(tag) > MAX_TAG_LENGTH
            or "," in tag
            or tag.split() != [tag]
        ):
            raise ValueError(
                f"{tag!r} is not a tag: a tag is one word of at most {MAX_TAG_LENGTH} characters"
            )
    return tuple(dict.fromkeys(map(str, words)))
