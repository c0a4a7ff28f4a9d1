"""The live views in a notebook: streams that the kernel carries to an anywidget model."""

from __future__ import annotations

import anywidget
import traitlets

from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.display import Bundle, bundle_bytes
from batchai_magics.widgets.core.polled_model import PageData
from batchai_magics.widgets.core.view_stream import Batch, ViewStream


class LiveView(ViewStream, anywidget.AnyWidget):
    """A view in a notebook, drawn by an ES module; its state are traits."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    view_id = traitlets.Unicode().tag(sync=True)

    def open_model(self, script: str, view_id: str) -> None:
        """Opens the anywidget model with the state; the stream is there already."""
        module, sheet = pages.script(script), pages.style(script)
        anywidget.AnyWidget.__init__(self, _esm=module, _css=sheet, view_id=view_id, **self.state)
        self.on_msg(lambda _widget, content, _buffers: self.receive(content))
        self.keep_route()

    def transmit(self, message: Batch) -> None:
        """Sends a message to the page."""
        self.send(message.content, message.buffers)
        self.keep_route()

    def publish_state(self, state: PageData) -> None:
        """Replaces the state that the page has, by name."""
        with self.hold_sync():
            for name, value in state.items():
                setattr(self, name, value)
        self.keep_route()

    def replace_outputs(self, *bundles: Bundle | None) -> int:
        """Sends a page, if there is one, what replaces the view and the outputs below; returns the bytes.

        None leaves an output as it is. A page that was loaded again no longer knows the display ids of its
        outputs, so that updates of them do not reach it.
        """
        if not self.has_page:
            return 0
        self.transmit(Batch({"kind": "outputs", "model_id": self.model_id, "outputs": list(bundles)}))
        return sum(map(bundle_bytes, filter(None, bundles)))

    def keep_route(self) -> None:
        """Restores the routing of the page's messages to the subshell that it chose; called after each send.

        ipykernel 7.4 routes them to the event loop that published last. For the publisher's thread that is
        the main loop, which receives nothing while a cell runs.
        """
        self.comm.__dict__.pop("_reply_subshell_id", None)

    def close(self) -> None:
        """Closes the widget and its layout's widget, which would stay open."""
        if self.comm is not None:
            self.layout.close()
        anywidget.AnyWidget.close(self)
