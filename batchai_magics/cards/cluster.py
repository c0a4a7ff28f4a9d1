"""A cluster as a still picture: an HTML card and its plain-text twin. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from batchai_magics.cards import parts
from batchai_magics.cards.sheet import Sheet, sheet_html, sheet_text
from batchai_magics.models.cluster import ScaleSettings
from batchai_magics.models.resources import Cluster, Node
from batchai_magics.models.states import AllocationState, NodeState

MOST_NODES = 64
TITLES = ("node", "state", "for", "job")

_COLOURS = {
    NodeState.PREPARING.value: parts.AMBER,
    NodeState.IDLE.value: parts.GREY,
    NodeState.RUNNING.value: parts.BLUE,
    NodeState.LEAVING.value: parts.PURPLE,
    NodeState.UNUSABLE.value: parts.RED,
}
_ALLOCATION = {AllocationState.STEADY: parts.GREEN, AllocationState.RESIZING: parts.AMBER}


@dataclass(frozen=True)
class ClusterCard:
    """What a card shows: the cluster, its nodes, the way back to the live view. `now` is when it is made."""

    cluster: Cluster
    nodes: Sequence[Node]
    now: datetime
    way_back: str = ""

    @property
    def title(self) -> str:
        """What the nodes are and how many: `Standard_D2 · 2 of 4 nodes · auto-scale 0 to 4`."""
        spec, current = self.cluster.spec, self.cluster.node_states.total
        target = target_of(spec.scale_settings, current)
        priority = " · low priority" if spec.vm_priority.value == "lowpriority" else ""
        count = (
            parts.counted(current, "node")
            if target == current
            else f"{current} of {parts.counted(target, 'node')}"
        )
        return f"{spec.vm_size}{priority} · {count} · {scale_of(spec.scale_settings)}"

    @property
    def counts(self) -> str:
        """How many nodes are in which state: `1 running, 1 idle`."""
        states = self.cluster.node_states
        present = [f"{states.of(state)} {state.value}" for state in NodeState if states.of(state)]
        return ", ".join(present) or "no nodes"

    @property
    def rows(self) -> Iterator[tuple[Node, str]]:
        """The nodes with how long they have been what they are; at most `MOST_NODES`."""
        for node in self.nodes[:MOST_NODES]:
            yield node, parts.duration((self.now - node.since).total_seconds()) if node.since else ""

    @property
    def left_out(self) -> str:
        """What the card does not show, in words; empty if it shows all."""
        rest = len(self.nodes) - MOST_NODES
        return f"and {parts.counted(rest, 'more node')}" if rest > 0 else ""


def target_of(scale: ScaleSettings | None, current: int) -> int:
    """How many nodes there should be: what was asked for, or with auto-scale within its bounds."""
    if scale is None:
        return current
    if scale.manual:
        return scale.manual.target_node_count
    assert scale.auto_scale is not None, "ScaleSettings holds one of the two"
    return min(max(current, scale.auto_scale.minimum_node_count), scale.auto_scale.maximum_node_count)


def scale_of(scale: ScaleSettings | None) -> str:
    """The scale settings in words: `fixed size`, `auto-scale 0 to 4`."""
    if scale is None or scale.auto_scale is None:
        return "fixed size"
    return f"auto-scale {scale.auto_scale.minimum_node_count} to {scale.auto_scale.maximum_node_count}"


def to_html(card: ClusterCard) -> str:
    """The card as one self-contained HTML element, nodes by the names that the live view gives them."""
    sheet = _sheet(card)
    return sheet_html(replace(sheet, rows=[(parts.node_name(name), *rest) for name, *rest in sheet.rows]))


def to_text(card: ClusterCard) -> str:
    """The card as plain text."""
    return sheet_text(_sheet(card))


def _sheet(card: ClusterCard) -> Sheet:
    state = card.cluster.allocation_state
    return Sheet(
        name=card.cluster.id.name,
        title=card.title,
        titles=TITLES,
        rows=[
            (node.id, node.state.value, lasted, node.job.name if node.job else "")
            for node, lasted in card.rows
        ],
        colours=_COLOURS,
        badge=(state.value, _ALLOCATION[state]),
        counts=card.counts,
        problems=[f"{error.code}: {error.message}" for error in card.cluster.errors],
        left_out=card.left_out,
        way_back=card.way_back,
    )
