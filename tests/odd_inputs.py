"""Unexpected inputs, for tests that they are rejected by our own errors: texts, values, descriptions."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from batchai_magics.errors import BatchAIError

SECRET = "hunter2-in-the-open"
ODD_TEXTS = (
    *("", " ", "-", "--", "=", "a=", "=b", "a=b", ".", "..", "../x", "/", "~", "~nobody/x", "{x}", "{", "}}"),
    *("\0", "a\0b", "\n", "a\nb", "\r", "\x1b]52;c;aGk=\a", "\u202egpj.exe", "\ud800", "a\udcff", "\ufeff"),
    *("0", "-1", "1e9", "9" * 30, "9" * 5000, "NaN", "٣", "true", "null", "PT5M", "P", "[concat('a')]", "*"),
    *("[", "(", "\\", "x" * 300, "x" * 5000, "a/b", "a:b", "nfs:x", "$HOME", "${", "é", "💥"),
    *("http://", "http://[", "https://a.b/c?sig=d"),
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/w/clusters/c",
    "/subscriptions/s/resourceGroups/workspaces/providers/Microsoft.BatchAI/workspaces/w/experiments/e/jobs/j",
)

texts = st.one_of(st.sampled_from(ODD_TEXTS), st.text(st.characters(), max_size=8))
scalars = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.just(10**400),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def changed(draw: Any, body: Any) -> Any:
    """The data with one to three values, at any depth, replaced, removed, renamed or duplicated."""
    data = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 3))):
        owner, key = draw(st.sampled_from(list(locations(data)) or [({"x": 0}, "x")]))
        how = draw(st.sampled_from(["replace", "replace", "leave out", "rename", "double"]))
        if how == "replace":
            owner[key] = copy.deepcopy(draw(values))  # the next change may be within it
        elif isinstance(owner, dict):
            value = owner[key] if how == "double" else owner.pop(key)
            if how != "leave out":
                owner[draw(st.one_of(texts, st.sampled_from([str(key).upper(), f"{key}s"])))] = value
        elif how == "double":
            owner.append(copy.deepcopy(owner[key]))
        else:
            del owner[key]
    return data


def locations(data: Any) -> Iterator[tuple[Any, Any]]:
    """All locations in the data, each as its container and key."""
    pairs = list(
        data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    )
    for key, value in pairs:
        yield data, key
        yield from locations(value)


@st.composite
def serialized(draw: Any, body: Any) -> str:
    """The data as JSON or YAML, modified as data and possibly as text."""
    import yaml

    data = draw(changed(body))
    text = json.dumps(data) if draw(st.booleans()) else yaml.dump(data, allow_unicode=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 20)))
        inserted = draw(
            st.one_of(texts, st.sampled_from(["!!binary ", "!!set ", "*a", "&a ", "<<: ", "'", "? ", "- "]))
        )
        text = text[:start] + inserted + text[end:]
    return text


def rejection(act: Callable[[], object], *, secret: str = SECRET) -> BatchAIError | None:
    """The error that rejects it, if any; fails if the error is not ours or repeats the secret."""
    try:
        act()
    except BatchAIError as error:
        refused = error
    else:
        return None
    assert refused.message.strip(), "it is refused without a word"
    assert secret not in str(refused), "the secret is repeated"
    return refused
