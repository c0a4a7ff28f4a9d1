"""The static card of a cluster, as HTML and plain text. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from batchai_magics.cards import card_parts
from batchai_magics.cards.card_parts import TableCard, pluralize, table_card_html
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


def cluster_card(
    cluster: Cluster, nodes: Sequence[Node], now: datetime, reopen_command: str = ""
) -> TableCard:
    """The card of a cluster and at most `MAX_NODES` of its nodes; `now` is the time of the card.

    Its title has their size and number: `Standard_D2 · 2 of 4 nodes · auto-scale 0 to 4`.
    """
    spec, states, state = cluster.spec, cluster.node_states, cluster.allocation_state
    current, target = states.total, target_node_count(spec.scale_settings, states.total)
    priority = " · low priority" if spec.vm_priority.value == "lowpriority" else ""
    count = pluralize(target, "node") if target == current else f"{current} of {pluralize(target, 'node')}"
    counts = [f"{states.of(kind)} {kind.value}" for kind in NodeState if states.of(kind)]
    rest = len(nodes) - MAX_NODES
    return TableCard(
        name=cluster.id.name,
        title=f"{spec.vm_size}{priority} · {count} · {describe_scale(spec.scale_settings)}",
        titles=TITLES,
        rows=[
            (
                node.id,
                node.state.value,
                elapsed_time((now - node.since).total_seconds()) if node.since else "",
                node.job.name if node.job else "",
            )
            for node in nodes[:MAX_NODES]
        ],
        colours=_COLOURS,
        badge=(state.value, _ALLOCATION[state]),
        counts=", ".join(counts) or "no nodes",
        problems=[f"{error.code}: {error.message}" for error in cluster.errors],
        omitted=f"and {pluralize(rest, 'more node')}" if rest > 0 else "",
        reopen_command=reopen_command,
    )


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


def to_html(card: TableCard) -> str:
    """The card as one self-contained HTML element, with node names as in the live view."""
    return table_card_html(replace(card, rows=[(node_name(name), *rest) for name, *rest in card.rows]))
