"""The folders of nodes that have left. The models are not imported: supervisors need this, and start fast."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.backends.local.folders import trees
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state import nodes
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import process


def sweep(store: Store, layout: Layout) -> None:
    """Ends what nodes that have left still prepare, and deletes their folders."""
    folders = list(layout.clusters.glob("*/nodes/*"))
    with store.read() as db:  # after the look at the folders: a node is written down before it gets one
        present = nodes.ids(db)
    for folder in folders:
        if folder.name not in present:
            clear(folder)


def clear(folder: Path) -> None:
    """Deletes the folder of a node that has left, once nothing runs there."""
    if (folder / "setup.json").exists():
        process.kill(lambda: process.marked(folder.name))
    trees.remove(folder)
