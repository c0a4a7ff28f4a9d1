"""Outputs that the publisher updates: those beneath cells, finally frozen, and views outside of cells."""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable

import anywidget
import traitlets
from ipywidgets import Layout, Widget  # type: ignore[import-untyped]  # it has no types

from batchai_magics.widgets.core import display, pages
from batchai_magics.widgets.core.display import Bundle, bundle_bytes
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.core.view_stream import Batch, Clock, PageData, PolledModel, ViewStream

SNAPSHOT_INTERVAL_S = 30.0  # between updates of the snapshot beside a live view
REFRESH_INTERVAL_S = 2.0  # between updates where no page shows a live view

WaitFor = Callable[[Callable[[], bool]], bool]  # waits for a condition; returns whether it was met


class _PageRouted(Widget):  # type: ignore[misc]  # as above
    """A model whose messages from a page arrive over the subshell that the page chose.

    ipykernel 7.4 routes them to the event loop that published last. For the publisher's thread that is the
    main loop, which receives nothing while a cell runs; for the reply to a page, a subshell that is gone when
    the page is closed, so that messages of the next page are lost.
    """

    def open(self) -> None:
        """Opens the comm."""
        super().open()
        self._forget_route()

    def _send(self, msg: PageData, buffers: list[bytes] | None = None) -> None:
        super()._send(msg, buffers)
        self._forget_route()

    def _forget_route(self) -> None:
        if self.comm is not None:
            self.comm.__dict__.pop("_reply_subshell_id", None)


class _PageRoutedLayout(_PageRouted, Layout):  # type: ignore[misc]  # as above
    """The layout of a view."""


class KernelWidget(_PageRouted, anywidget.AnyWidget):
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
            layout=_PageRoutedLayout(),
            **view.state,
        )
        self.on_msg(lambda _widget, content, _buffers: view.receive(content))

    @property
    def is_gone(self) -> bool:
        """Whether nothing more is to be sent to the page."""
        return self.view.is_gone

    def transmit(self, message: Batch) -> None:
        """Sends a message to the page."""
        self.send(message.content, message.buffers)

    def publish_state(self, state: PageData) -> None:
        """Replaces the state that the page has, by name."""
        with self.hold_sync():
            for name, value in state.items():
                setattr(self, name, value)

    def replace_outputs(self, *bundles: Bundle | None) -> int:
        """Sends a page, if any, the bundles that replace the view and the outputs below; returns the bytes.

        None leaves an output as it is. A page that was loaded again no longer knows the display ids of its
        outputs, so that updates of them do not reach it.
        """
        if not self.view.has_page:
            return 0
        self.transmit(Batch({"kind": "outputs", "model_id": self.model_id, "outputs": list(bundles)}))
        return sum(map(bundle_bytes, filter(None, bundles)))

    def close(self) -> None:
        """Closes the widget and its layout's widget, which would stay open."""
        if self.comm is not None:
            self.layout.close()
        super().close()


class PublishedOutput(ABC):
    """What the publisher sends. Only its thread calls `send_next` and `republish`.

    `key` identifies what is shown: the id of a resource, in lower case.
    """

    def __init__(self, key: str, model: PolledModel) -> None:
        self.key = key
        self.model = model
        self.is_frozen = False
        self.is_closed = False
        self._freezing = threading.Lock()

    @property
    def is_removed(self) -> bool:
        """Whether the page has removed the view."""
        return False

    @property
    def is_unwatched(self) -> bool:
        """Whether no page shows it, so that polling can pause."""
        return False

    @abstractmethod
    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""

    @abstractmethod
    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Called when a cell has ended: freezes the output if it is due."""

    def republish(self) -> int:
        """Publishes the frozen output again if a page missed it; returns the bytes sent."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Freezes and closes the output in its current state."""


class EmbeddedOutput(PublishedOutput):
    """A view that no cell shows: it is embedded in another view, on a page of its own, or recorded."""

    def __init__(self, key: str, model: PolledModel, view: ViewStream) -> None:
        super().__init__(key, model)
        self.view = view

    @property
    def is_unwatched(self) -> bool:
        """Whether no page shows it, and nothing will change any more."""
        return self.model.is_over and self.view.is_unwatched

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self.view.carrier.is_gone:
            self.close()
            return 0
        return self.view.send_next(limit_bytes)

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Does nothing: no cell shows it."""

    def close(self) -> None:
        """Ends the view."""
        with self._freezing:
            was_closed, self.is_closed, self.is_frozen = self.is_closed, True, True
        if not was_closed:
            self.view.carrier.close()


class CellOutput(PublishedOutput):
    """One or two outputs beneath a cell, finally frozen to static HTML and text."""

    def __init__(self, key: str, model: PolledModel, *, clock: Clock, id: str = "") -> None:
        super().__init__(key, model)
        self.id = id or uuid.uuid4().hex
        self.second_id = f"{self.id}-second"
        self._clock = clock
        self._updated_at = clock()
        self._updated_version = model.version

    def open(self) -> None:
        """Shows it beneath the running cell."""
        display.show(self._render(), self.id)

    def send_next(self, limit_bytes: int) -> int:
        """Freezes the output at the end, or refreshes it if that is due; returns the bytes sent."""
        if self._is_over():
            return self.freeze()
        return self._update(self._render(), self.id) if self._is_due(REFRESH_INTERVAL_S, limit_bytes) else 0

    def _is_over(self) -> bool:
        """Whether the output is to be frozen."""
        return self.model.is_over

    def _is_stale(self, *, is_late: bool) -> bool:
        """Whether to refresh the output: immediately after a change of state, else at intervals."""
        return self._updated_version != self.model.version or (is_late and not self.model.is_over)

    def _is_due(self, interval_s: float, limit_bytes: int) -> bool:
        """Whether a refresh is due and fits the budget."""
        is_late = self._clock() - self._updated_at >= interval_s
        return limit_bytes >= OVERHEAD_BYTES and self._is_stale(is_late=is_late)

    def freeze(self) -> int:
        """Freezes the output, once, from any thread; returns the bytes sent."""
        with self._freezing:
            return 0 if self.is_frozen else self._freeze()

    def close(self) -> None:
        """Freezes and closes the output in its current state."""
        self.freeze()
        self.is_closed = True

    def _freeze(self) -> int:
        """Publishes the final output; the caller holds the lock."""
        bundle = self._render()
        display.update(bundle, self.id)
        self.is_frozen = True
        return bundle_bytes(bundle)

    @abstractmethod
    def _render(self) -> Bundle:
        """Renders the current state as HTML and text, or as text only while nothing is known."""

    def _update(self, bundle: Bundle, display_id: str) -> int:
        """Replaces an output; returns the size in bytes."""
        self._updated_at, self._updated_version = self._clock(), self.model.version
        display.update(bundle, display_id)
        return bundle_bytes(bundle)


class LiveOutput(CellOutput):
    """An output with a live view, and beside it a snapshot for the saved notebook, which the view hides."""

    view: ViewStream
    widget: KernelWidget

    def _attach(self, view: ViewStream, *, is_kept: bool) -> None:
        """Sets the view, and makes its widget. With `is_kept`, it stays live after the last change."""
        self.view, self.widget = view, KernelWidget(view, self.id)
        self._is_kept = is_kept
        self._hello_deadline = display.hello_deadline(self._clock())
        self._refreshed_pages = 1  # pages with the latest snapshot: the first one got it from the cell

    @property
    def is_removed(self) -> bool:
        """Whether the page has removed the view."""
        return self.view.is_removed

    def open(self) -> None:
        """Shows the view and its hidden snapshot beneath the running cell."""
        self._show_view(display.show)
        display.show(self._snapshot(), self.second_id)

    def send_next(self, limit_bytes: int) -> int:
        """Freezes the output at the end, or sends the view's next message, or refreshes the snapshot."""
        if self._is_over():
            return self.freeze()
        sent = self.view.send_next(limit_bytes)
        interval_s = SNAPSHOT_INTERVAL_S if self.view.has_page else REFRESH_INTERVAL_S
        is_reloaded = self.view.has_page and self.view.page_count > self._refreshed_pages
        if sent or not (is_reloaded or self._is_due(interval_s, limit_bytes)):
            return sent
        return self._refresh()

    def _refresh(self) -> int:
        """Updates what is below the view, also in a page that was loaded again."""
        outputs = self._outputs_below()
        page_count, has_page = self.view.page_count, self.view.has_page  # before: a page may come meanwhile
        sent = sum(self._update(bundle, id) for id, bundle in outputs.items())
        if page_count > 1:
            sent += self.widget.replace_outputs(None, *outputs.values())
            self._refreshed_pages = page_count if has_page else 1
        return sent

    def _outputs_below(self) -> dict[str, Bundle]:
        """The outputs below the view, by display id."""
        return {self.second_id: self._snapshot()}

    def replace(self, old: LiveOutput) -> None:
        """Shows the view in place of `old`, an output with the same id, and closes that one.

        A page that shows the old view has `HELLO_S` to say hello to this one.
        """
        if old.view.has_page:
            self._hello_deadline = self._clock() + display.HELLO_S
        with old._freezing:
            old.is_frozen = True
        self._show_view(display.update)
        display.update(self._snapshot(), self.second_id)
        old.close()

    def close(self) -> None:
        """Freezes the output and closes the view."""
        self.is_closed = True
        super().close()
        self.widget.close()

    @property
    def _is_hello_pending(self) -> bool:
        """Whether the page that requested the view may still say hello."""
        return self._clock() < self._hello_deadline

    def _snapshot(self) -> Bundle:
        return display.snapshot_for(self.id, self._render())

    def _show_view(self, show: Callable[[Bundle, str], None]) -> None:
        bundle, _ = self.widget._repr_mimebundle_() or ({}, {})
        # A text-only front end shows a title in place of the view; the snapshot has the rest.
        title = self._render()["text/plain"].partition("\n")[0]
        show({**bundle, "text/plain": title}, self.id)
