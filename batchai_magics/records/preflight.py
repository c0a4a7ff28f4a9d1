"""The measurements of a preflight, of nodes and pairs of them, and which nodes are bad or slow. Pure.

A measured value is compared with the median of all nodes; the facts of a node are compared with the most
common ones.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from batchai_magics.untrusted_files import parse_json

SLOW_SHARE = 0.5  # of the median: a node that is slower is named
SLOW_DISK_SHARE = 0.2  # disks vary more
LESS_MEMORY_SHARE = 0.9  # of the median
MAX_CLOCK_S = 1.0
MIN_DISK_BYTES, MIN_MEMORY_BYTES = 1 << 30, 256 << 20  # free
MAX_PACKAGES = 5  # named in a finding


class FindingKind(enum.Enum):
    """What is wrong with a node."""

    BAD = "bad"  # a job may fail there
    SLOW = "slow"  # a job would wait for it


class Finding(NamedTuple):
    """A problem of a node, as a phrase."""

    node: str
    kind: FindingKind
    text: str

    @property
    def sentence(self) -> str:
        """Names the node."""
        return f"{self.node} is {self.kind.value}: {self.text}"


class GpuHealth(NamedTuple):
    """The state of one GPU: its uncorrected `ecc_errors`; `is_slowed` by heat or a lack of power."""

    number: int
    memory_bytes: int
    free_bytes: int
    temperature_c: int | None = None
    ecc_errors: int | None = None
    is_slowed: bool = False


class NodeCheck(NamedTuple):
    """The measurements of a node; rates are in bytes per second, None if they were not measured.

    `problem` is why the node could not be checked, `machine` the name of its host. The clock is compared
    with the first node's.
    """

    node: str
    problem: str = ""
    machine: str = ""
    clock_offset_s: float | None = None
    disk_free_bytes: int | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    processor_rate: float | None = None  # of a hash function
    memory_rate: float | None = None
    disk_rate: float | None = None
    network_rate: float | None = None  # to the best of at least two other nodes
    python: str = ""
    packages: Mapping[str, str] = {}
    gpus: tuple[GpuHealth, ...] = ()
    gpu_problem: str = ""

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> NodeCheck:
        """The check with these fields."""
        gpus = tuple(GpuHealth(**gpu) for gpu in body.get("gpus", ()))
        known = {name: value for name, value in body.items() if name in cls._fields}
        return cls(**{**known, "gpus": gpus})


class PairCheck(NamedTuple):
    """The measurements of two nodes together; `allreduce_s` is for 4 MiB, `rate` in bytes per second."""

    first: str
    second: str
    rate: float | None = None
    latency_s: float | None = None
    allreduce_s: float | None = None
    problem: str = ""


class PreflightReport(NamedTuple):
    """The result of a preflight. `excluded` are the nodes that the job runs without."""

    nodes: tuple[NodeCheck, ...]
    pairs: tuple[PairCheck, ...]
    findings: tuple[Finding, ...]
    duration_s: float = 0.0
    excluded: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, nodes: Sequence[NodeCheck], pairs: Sequence[PairCheck], duration_s: float = 0.0
    ) -> PreflightReport:
        """The report on these measurements."""
        rated, findings = _rated(nodes, pairs), list[Finding]()
        checked = [node for node in rated if not node.problem]
        for node in rated:
            if node.problem:
                findings.append(Finding(node.node, FindingKind.BAD, node.problem))
                continue
            texts = [*_own_problems(node), *_differences(node, checked), *_lonely(node, pairs)]
            findings += (Finding(node.node, FindingKind.BAD, text) for text in texts)
            findings += (Finding(node.node, FindingKind.SLOW, text) for text in _slowness(node, checked))
        return cls(tuple(rated), tuple(pairs), tuple(findings), round(duration_s, 3))

    @property
    def flagged(self) -> tuple[str, ...]:
        """The nodes with findings, in order."""
        named = {finding.node for finding in self.findings}
        return tuple(node.node for node in self.nodes if node.node in named)

    @property
    def sentence(self) -> str:
        """The result as one line."""
        count = f"{len(self.nodes)} node" + "s" * (len(self.nodes) != 1)
        if not self.findings:
            return f"preflight: {count} checked in {self.duration_s:.1f} s, nothing found"
        texts = "; ".join(finding.sentence for finding in self.findings)
        return f"preflight: {count} checked in {self.duration_s:.1f} s: {texts}"

    def result_of(self, node: str) -> str:
        """`good`, `slow` or `bad`."""
        kinds = [finding.kind for finding in self.findings if finding.node == node]
        return "bad" if FindingKind.BAD in kinds else "slow" if kinds else "good"

    def to_json(self) -> dict[str, Any]:
        """The report for a file or a program; of the packages, the number alone."""
        return {
            "duration_s": self.duration_s,
            "nodes": [
                {
                    **node._asdict(),
                    "packages": len(node.packages),
                    "gpus": [gpu._asdict() for gpu in node.gpus],
                    "result": self.result_of(node.node),
                }
                for node in self.nodes
            ],
            "pairs": [pair._asdict() for pair in self.pairs],
            "findings": [{**finding._asdict(), "kind": finding.kind.value} for finding in self.findings],
            "excluded": list(self.excluded),
        }

    @classmethod
    def from_text(cls, text: str | bytes) -> PreflightReport:
        """The report in a file, whose nodes have no packages."""
        body = parse_json(text)
        return cls(
            tuple(NodeCheck.from_json({**node, "packages": {}}) for node in body["nodes"]),
            tuple(PairCheck(**pair) for pair in body["pairs"]),
            tuple(
                Finding(**{**finding, "kind": FindingKind(finding["kind"])}) for finding in body["findings"]
            ),
            body["duration_s"],
            tuple(body["excluded"]),
        )


def _rated(nodes: Sequence[NodeCheck], pairs: Iterable[PairCheck]) -> list[NodeCheck]:
    """The nodes with their best rate to at least two others, so that one slow partner does not count."""
    known, min_partners, rated = list(pairs), min(2, max(1, len(nodes) - 1)), []
    for node in nodes:
        rates = [pair.rate for pair in known if pair.rate and node.node in pair[:2]]
        rated.append(node._replace(network_rate=max(rates) if len(rates) >= min_partners else None))
    return rated


def _own_problems(node: NodeCheck) -> Iterator[str]:
    """The problems of a node that do not depend on the others."""
    offset_s = node.clock_offset_s or 0.0
    if abs(offset_s) > MAX_CLOCK_S:
        yield f"its clock is {abs(offset_s):.1f} s {'ahead' if offset_s > 0 else 'behind'}"
    if node.disk_free_bytes is not None and node.disk_free_bytes < MIN_DISK_BYTES:
        yield f"only {size_text(node.disk_free_bytes)} are free on its disk"
    if node.memory_free_bytes is not None and node.memory_free_bytes < MIN_MEMORY_BYTES:
        yield f"only {size_text(node.memory_free_bytes)} of its memory are free"
    if node.gpu_problem:
        yield f"its GPUs cannot be used: {node.gpu_problem}"
    for gpu in node.gpus:
        if gpu.ecc_errors:
            yield f"GPU {gpu.number} has {gpu.ecc_errors} uncorrected memory error(s)"
        if gpu.is_slowed:
            yield f"GPU {gpu.number} is slowed down by heat or a lack of power"


def _differences(node: NodeCheck, nodes: Sequence[NodeCheck]) -> Iterator[str]:
    """Differences of a node from the majority of the others, if there is one."""
    pythons = _majority(peer.python for peer in nodes)
    if pythons is not None and node.python != pythons:
        yield f"it has Python {node.python or '(unknown)'}, the others {pythons}"
    gpu_count = _majority(len(peer.gpus) for peer in nodes)
    if gpu_count is not None and len(node.gpus) != gpu_count:
        yield f"it has {len(node.gpus)} GPU(s), the others {gpu_count}"
    memory = [peer.memory_bytes for peer in nodes if peer.memory_bytes]
    if node.memory_bytes and node.memory_bytes < LESS_MEMORY_SHARE * median(memory):
        yield f"it has {size_text(node.memory_bytes)} of memory, the others {size_text(median(memory))}"
    if different := list(_different_packages(node, nodes)):
        more = f" and {len(different) - MAX_PACKAGES} more" if len(different) > MAX_PACKAGES else ""
        yield f"other packages: {', '.join(different[:MAX_PACKAGES])}{more}"


def _different_packages(node: NodeCheck, nodes: Sequence[NodeCheck]) -> Iterator[str]:
    names = sorted({name for peer in nodes for name in peer.packages})
    for name in names:
        version = node.packages.get(name, "")
        common = _majority(peer.packages.get(name, "") for peer in nodes)
        if common is not None and version != common:
            yield f"{name} {version or 'missing'} (the others: {common or 'none'})"


def _majority(values: Iterable[Any]) -> Any:
    """The value that more than half of the nodes have; None if there is none."""
    counted = Counter(values)
    value, count = counted.most_common(1)[0] if counted else (None, 0)
    return value if 2 * count > counted.total() else None


def _lonely(node: NodeCheck, pairs: Sequence[PairCheck]) -> Iterator[str]:
    """The problem of a node that could exchange data with no other one, while others could."""
    own_pairs = [pair for pair in pairs if node.node in pair[:2]]
    if own_pairs and all(pair.problem for pair in own_pairs) and any(not pair.problem for pair in pairs):
        yield f"it could exchange data with no other node: {own_pairs[0].problem}"


_RATES = (
    ("processor_rate", "its processor does", SLOW_SHARE),
    ("memory_rate", "its memory copies", SLOW_SHARE),
    ("disk_rate", "its disk writes", SLOW_DISK_SHARE),
    ("network_rate", "it exchanges", SLOW_SHARE),
)


def _slowness(node: NodeCheck, nodes: Sequence[NodeCheck]) -> Iterator[str]:
    for field, words, share in _RATES:
        rates = [rate for peer in nodes if (rate := getattr(peer, field))]
        node_rate = getattr(node, field)
        if node_rate and node_rate < share * median(rates):
            yield f"{words} {size_text(node_rate)}/s, the median is {size_text(median(rates))}/s"


def pairs_to_repeat(nodes: Sequence[NodeCheck], pairs: Iterable[PairCheck]) -> set[tuple[str, str]]:
    """The best pair of each node whose exchanges are slow, to be measured again."""
    known = [pair for pair in pairs if pair.rate]
    rated = [node._replace(processor_rate=None, memory_rate=None, disk_rate=None) for node in nodes]
    slow = slow_nodes(_rated([node for node in rated if not node.problem], known))
    pairs_by_node = {name: [pair for pair in known if name in pair[:2]] for name in slow}
    best = (max(node_pairs, key=lambda pair: pair.rate or 0.0) for node_pairs in pairs_by_node.values())
    return {(pair.first, pair.second) for pair in best}


def slow_nodes(nodes: Sequence[NodeCheck]) -> set[str]:
    """The nodes whose measured rates are low, to be measured again."""
    return {node.node for node in nodes if any(_slowness(node, nodes))}


def size_text(size_bytes: float) -> str:
    """A size in the largest fitting unit: `1.5 GB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if size_bytes < 999.5:  # three digits would round it to the next unit
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.3g} TB"
