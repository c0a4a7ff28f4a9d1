"""`batchai cluster node …` and `batchai job node …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing

from batchai_magics.backends.base import NODE_COMMANDS, PREEMPTION, CommandBytes, CommandEnd
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import port_forwarding
from batchai_magics.commands.output.command_progress import (
    CommandExit,
    LogOutput,
    Message,
    Stream,
    StreamParts,
)
from batchai_magics.errors import command_error
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Node


def list_of_cluster(context: Context, arguments: Namespace) -> Sequence[Node]:
    """The nodes of a cluster with their addresses."""
    return context.backend.nodes(context.cluster(arguments))


def list_of_job(context: Context, arguments: Namespace) -> Sequence[Node]:
    """The nodes that a job runs on."""
    return context.backend.nodes(context.target(arguments, Kind.JOB))


def execute_on_cluster(context: Context, arguments: Namespace) -> Stream:
    """Runs a command on a node of a cluster."""
    return _execute(context, arguments, context.cluster(arguments))


def execute_on_job(context: Context, arguments: Namespace) -> Stream:
    """Runs a command on a node of a job."""
    return _execute(context, arguments, context.target(arguments, Kind.JOB))


def preempt(context: Context, arguments: Namespace) -> None:
    """Preempts a node, as Azure may at any time."""
    PREEMPTION.of(context.backend).preempt(context.cluster(arguments), arguments.node_id)


def _execute(context: Context, arguments: Namespace, id: ResourceId) -> Stream:
    forwards = port_forwarding.parse_forwards(arguments.address or ())
    if not arguments.exec and not forwards:
        raise command_error("Please provide a command with --exec, or ports with --address.")
    node = _choose_node(context.backend.nodes(id), arguments.node_id)
    what = "The command was ended." if arguments.exec else "The ports are no longer forwarded."
    return Stream(_run(context, arguments.exec, id, node, forwards), f"Stopped. {what}")


def _choose_node(nodes: Sequence[Node], wanted: str | None) -> Node:
    """The node with that id, by default the first one."""
    if not wanted:
        if not nodes:
            raise command_error("No nodes available in the cluster")
        return nodes[0]
    named = next((node for node in nodes if node.id == wanted), None)
    if named is None:
        known = ", ".join(node.id for node in nodes)
        raise command_error(
            f"Cannot find a node with id={wanted}", hint=f"There are: {known}." if known else ""
        )
    return named


def _exit(end: CommandEnd) -> CommandExit:
    ending = f"the command ended with exit code {end.exit_code}"
    return CommandExit(end.exit_code, ending if end.exit_code else "")


def _run(
    context: Context,
    command: str | None,
    id: ResourceId,
    node: Node,
    forwards: Sequence[port_forwarding.PortForward],
) -> StreamParts:
    with port_forwarding.open_forwards(forwards):
        yield from (Message(f"{forward} of node {node.id} is forwarded.") for forward in forwards)
        if not command:
            port_forwarding.wait_for_interrupt()
            return
        with closing(NODE_COMMANDS.of(context.backend).execute(id, node.id, command)) as output:
            for part in output:
                yield LogOutput(part.data, part.is_error) if isinstance(part, CommandBytes) else _exit(part)
