"""A page that counts: what a kernel would send to it is encoded as a kernel does, counted, and dropped.

Must be imported before any widget is made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import comm
from comm.base_comm import BaseComm
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell


@dataclass
class Page:
    """What has come, and the channels it came by."""

    messages: int = 0
    size_bytes: int = 0
    comms: list[BaseComm] = field(default_factory=list)

    def take(self, content: Any, buffers: Any = None) -> None:
        """Counts a message: JSON, and its binary buffers beside it."""
        self.messages += 1
        self.size_bytes += len(json.dumps(content, default=str))
        self.size_bytes += sum(memoryview(buffer).nbytes for buffer in buffers or ())

    def say_ready(self) -> None:
        """Answers every view, as its JavaScript does when it is drawn and has nothing yet."""
        ready = {"method": "custom", "content": {"kind": "ready", "have": {}}}
        for channel in self.comms:
            channel.handle_msg({"content": {"data": ready}, "buffers": []})


page = Page()


class _Comm(BaseComm):
    def publish_msg(
        self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
    ):
        if msg_type == "comm_open":
            page.comms.append(self)
        page.take({"msg_type": msg_type, "content": {"data": data}, "metadata": metadata, **keys}, buffers)


class _Display(DisplayPublisher):
    def publish(self, data: Any, metadata: Any = None, **keys: Any) -> None:
        page.take({"data": data, "metadata": metadata})


comm.create_comm = _Comm
InteractiveShell.instance().display_pub = _Display()
