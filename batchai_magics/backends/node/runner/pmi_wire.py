"""The words of PMI-1: lines of `name=value` pairs, and what stands in them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Reply(NamedTuple):
    """Bytes for one rank."""

    rank: int
    data: bytes


def mapping(nodes: Sequence[int]) -> str:
    """Which node each rank is on, in the words of PMI: blocks of (first node, nodes, ranks on each)."""
    counts: dict[int, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    blocks: list[list[int]] = []
    for node, count in counts.items():
        if blocks and blocks[-1][2] == count and sum(blocks[-1][:2]) == node:
            blocks[-1][1] += 1
        else:
            blocks.append([node, 1, count])
    return "(vector," + ",".join(f"({first},{number},{count})" for first, number, count in blocks) + ")"


def greeting(rank: int, size: int) -> bytes:
    """What a rank is told that has come over a port: who it is."""
    lines = ("cmd=initack rc=0", f"cmd=set size={size}", f"cmd=set rank={rank}", "cmd=set debug=0")
    return "".join(f"{line}\n" for line in lines).encode()


def claimed_id(line: bytes) -> str:
    """The id by which a rank that comes over a port says who it is."""
    pairs = pairs_of(line.decode("utf-8", "replace").strip())
    return pairs.get("pmiid", "") if pairs.get("cmd") == "initack" else ""


def pairs_of(text: str) -> dict[str, str]:
    """The pairs of a line; a word without `=` goes on with the value before it."""
    pairs: dict[str, str] = {}
    name = ""
    for word in text.split(" "):
        if "=" in word:
            name, _, value = word.partition("=")
            pairs[name] = value
        elif name:
            pairs[name] += f" {word}"
    return pairs


def reply(rank: int, command: str, **pairs: str) -> Reply:
    """A command for a rank; a value has no blanks on the wire."""
    words = [f"cmd={command}", *(f"{name}={value.replace(' ', '_')}" for name, value in pairs.items())]
    return Reply(rank, (" ".join(words) + "\n").encode())
