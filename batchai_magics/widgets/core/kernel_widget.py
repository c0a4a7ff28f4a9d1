"""The carrier of views in a notebook: an anywidget model, which the kernel connects with its pages."""

from __future__ import annotations

import uuid

import anywidget
import traitlets

from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.display import Bundle, bundle_bytes
from batchai_magics.widgets.core.polled_model import PageData
from batchai_magics.widgets.core.view_stream import Batch, ViewStream


class KernelWidget(anywidget.AnyWidget):
    """The model of a view, which an ES module draws; the parts of the view's state are its traits."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    view_id = traitlets.Unicode().tag(sync=True)

    def __init__(self, view: ViewStream, view_id: str = "") -> None:
        self.view = view
        view.carrier = self
        self.add_traits(**{name: traitlets.Any().tag(sync=True) for name in view.state})
        super().__init__(
            _esm=pages.script(view.script),
            _css=pages.style(view.script),
            _anywidget_id=f"{__name__}.{view.script}",  # a page keeps one style sheet for each id
            view_id=view_id or uuid.uuid4().hex,
            **view.state,
        )
        self.on_msg(lambda _widget, content, _buffers: view.receive(content))
        self._keep_route()

    @property
    def is_gone(self) -> bool:
        """Whether the page has let go of the view."""
        return self.view.is_gone

    def transmit(self, message: Batch) -> None:
        """Sends a message to the page."""
        self.send(message.content, message.buffers)
        self._keep_route()

    def publish_state(self, state: PageData) -> None:
        """Replaces the state that the page has, by name."""
        with self.hold_sync():
            for name, value in state.items():
                setattr(self, name, value)
        self._keep_route()

    def replace_outputs(self, *bundles: Bundle | None) -> int:
        """Sends a page, if there is one, what replaces the view and the outputs below; returns the bytes.

        None leaves an output as it is. A page that was loaded again no longer knows the display ids of its
        outputs, so that updates of them do not reach it.
        """
        if not self.view.has_page:
            return 0
        self.transmit(Batch({"kind": "outputs", "model_id": self.model_id, "outputs": list(bundles)}))
        return sum(map(bundle_bytes, filter(None, bundles)))

    def _keep_route(self) -> None:
        """Restores the routing of the page's messages to the subshell that it chose; called after each send.

        ipykernel 7.4 routes them to the event loop that published last. For the publisher's thread that is
        the main loop, which receives nothing while a cell runs.
        """
        self.comm.__dict__.pop("_reply_subshell_id", None)

    def close(self) -> None:
        """Closes the widget and its layout's widget, which would stay open."""
        if self.comm is not None:
            self.layout.close()
        super().close()
