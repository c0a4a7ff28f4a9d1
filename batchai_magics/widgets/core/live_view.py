"""The anywidget model that all live views share."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from batchai_magics.widgets.core import pages


class LiveView(anywidget.AnyWidget):
    """A view in a notebook, drawn by an ES module."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    view_id = traitlets.Unicode().tag(sync=True)
    has_page = False  # a page has said hello
    is_removed = False  # the page has removed the view

    def __init__(self, script: str, view_id: str, **state: Any) -> None:
        super().__init__(_esm=pages.script(script), _css=pages.style(script), view_id=view_id, **state)
        self.keep_route()

    def keep_route(self) -> None:
        """Restores the routing of the page's messages to the subshell that it chose; called after each send.

        ipykernel 7.4 routes them to the event loop that published last. For the publisher's thread that is
        the main loop, which receives nothing while a cell runs.
        """
        self.comm.__dict__.pop("_reply_subshell_id", None)

    def close(self) -> None:
        """Closes the widget and that of its layout, which would stay open."""
        if self.comm is not None:
            self.layout.close()
        super().close()
