"""The tags of runs: words that users find them by."""

from __future__ import annotations

from collections.abc import Iterable

MAX_LENGTH = 100  # characters


def check_tags(tags: Iterable[object]) -> tuple[str, ...]:
    """The tags without duplicates.

    Raises:
        ValueError: One is not a word: empty, too long, or with a comma or white space.
    """
    found = list(tags)
    for tag in found:
        if not isinstance(tag, str) or not tag or len(tag) > MAX_LENGTH or "," in tag or tag.split() != [tag]:
            raise ValueError(f"{tag!r} is not a tag: a tag is one word of at most {MAX_LENGTH} characters")
    return tuple(dict.fromkeys(map(str, found)))
