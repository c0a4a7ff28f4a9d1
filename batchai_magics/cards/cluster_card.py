"""The static card of a cluster, as HTML and plain text. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from batchai_magics.cards import card_parts
from batchai_magics.cards.card_parts import TableCard, table_card_html, table_card_text
from batchai_magics.models.cluster_spec import ScaleSettings
from batchai_magics.models.job_execution import node_name
from batchai_magics.models.resources import Cluster, Node
from batchai_magics.models.states import AllocationState, NodeState
from batchai_magics.models.wire_times import elapsed_time

MAX_NODES = 64
TITLES = ("node", "state", "for", "job")

_COLOURS = {
    NodeState.PREPARING.value: card_parts.AMBER,
    NodeState.IDLE.value: card_parts.GREY,
    NodeState.RUNNING.value: card_parts.BLUE,
    NodeState.LEAVING.value: card_parts.PURPLE,
    NodeState.UNUSABLE.value: card_parts.RED,
    NodeState.PREEMPTED.value: card_parts.BROWN,
}
_ALLOCATION = {AllocationState.STEADY: card_parts.GREEN, AllocationState.RESIZING: card_parts.AMBER}


@dataclass(frozen=True)
class ClusterCard:
    """The contents of the card: the cluster, its nodes, and the command that reopens the live view.

    `now` is when the card is made.
    """

    cluster: Cluster
    nodes: Sequence[Node]
    now: datetime
    reopen_command: str = ""

    @property
    def title(self) -> str:
        """Size and number of the nodes: `Standard_D2 · 2 of 4 nodes · auto-scale 0 to 4`."""
        spec, current = self.cluster.spec, self.cluster.node_states.total
        target = target_node_count(spec.scale_settings, current)
        priority = " · low priority" if spec.vm_priority.value == "lowpriority" else ""
        count = (
            card_parts.pluralize(current, "node")
            if target == current
            else f"{current} of {card_parts.pluralize(target, 'node')}"
        )
        return f"{spec.vm_size}{priority} · {count} · {describe_scale(spec.scale_settings)}"

    @property
    def counts(self) -> str:
        """The number of nodes by state: `1 running, 1 idle`."""
        states = self.cluster.node_states
        present = [f"{states.of(state)} {state.value}" for state in NodeState if states.of(state)]
        return ", ".join(present) or "no nodes"

    @property
    def rows(self) -> Iterator[tuple[Node, str]]:
        """The nodes and the time in their state; at most `MAX_NODES`."""
        for node in self.nodes[:MAX_NODES]:
            yield node, elapsed_time((self.now - node.since).total_seconds()) if node.since else ""

    @property
    def omitted(self) -> str:
        """A note on nodes that are not listed; empty if all are."""
        rest = len(self.nodes) - MAX_NODES
        return f"and {card_parts.pluralize(rest, 'more node')}" if rest > 0 else ""


def target_node_count(scale: ScaleSettings | None, current: int) -> int:
    """The target number of nodes; with auto-scale, the current number within its bounds."""
    if scale is None:
        return current
    if scale.manual:
        return scale.manual.target_node_count
    assert scale.auto_scale is not None, "ScaleSettings holds one of the two"
    return min(max(current, scale.auto_scale.minimum_node_count), scale.auto_scale.maximum_node_count)


def describe_scale(scale: ScaleSettings | None) -> str:
    """The scale settings in words: `fixed size`, `auto-scale 0 to 4`."""
    if scale is None or scale.auto_scale is None:
        return "fixed size"
    return f"auto-scale {scale.auto_scale.minimum_node_count} to {scale.auto_scale.maximum_node_count}"


def to_html(card: ClusterCard) -> str:
    """The card as one self-contained HTML element, with node names as in the live view."""
    sheet = _sheet(card)
    return table_card_html(replace(sheet, rows=[(node_name(name), *rest) for name, *rest in sheet.rows]))


def to_text(card: ClusterCard) -> str:
    """The card as plain text."""
    return table_card_text(_sheet(card))


def _sheet(card: ClusterCard) -> TableCard:
    state = card.cluster.allocation_state
    return TableCard(
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
        omitted=card.omitted,
        reopen_command=card.reopen_command,
    )
