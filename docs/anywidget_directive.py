"""The directive `{anywidget}` of MyST, for Sphinx: a widget in a page that has no kernel.

    :::{anywidget} ../batchai_magics/widgets/static/job_view.js
    :css: ../batchai_magics/widgets/static/job_view.css
    {"recording": "recordings/training.batchai"}
    :::

The body is the widget's model as JSON. Texts that name a file beside the page become its address; the module,
its style and these files are copied to the site.
"""

from __future__ import annotations

import hashlib
import html
import json
import posixpath
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ASSETS = "_static/widgets"
PAGE = """
<div class="widget" id="{id}" role="region" aria-label="{label}"></div>
<noscript>{label}: this needs JavaScript.</noscript>
<script type="module">
import module from {module};
const widget = typeof module === "function" ? await module() : module;
const link = Object.assign(document.createElement("link"), {{rel: "stylesheet", href: {css}}});
if ({css}) document.head.append(link);
const state = {model};
const model = {{
  get: (name) => state[name], set: (name, value) => {{ state[name] = value; }},
  on() {{}}, off() {{}}, send() {{}}, save_changes() {{}},
}};
widget.render({{model, el: document.getElementById("{id}")}});
</script>
"""


class AnyWidget(SphinxDirective):
    """A module that draws into an element, with a model that only the page has."""

    required_arguments = 1
    has_content = True
    option_spec = {"css": directives.unchanged, "label": directives.unchanged}  # noqa: RUF012    # as docutils has it

    def run(self) -> list[nodes.Node]:
        """The element and the script that fills it."""
        model = {
            name: self._address_of(value)
            for name, value in json.loads("\n".join(self.content) or "{}").items()
        }
        css = self.options.get("css", "")
        text = PAGE.format(
            id=f"widget-{self.env.new_serialno('widget')}",
            label=html.escape(self.options.get("label", "A recording of a job")),
            module=json.dumps(self._asset(self.arguments[0])),
            css=json.dumps(self._asset(css) if css else ""),
            model=json.dumps(model),
        )
        return [nodes.raw("", text, format="html")]

    def _address_of(self, value: Any) -> Any:
        is_file = isinstance(value, str) and "." in value and self._file(value).is_file()
        return self._asset(value) if is_file else value

    def _file(self, name: str) -> Path:
        return Path(self.env.doc2path(self.env.docname)).parent / name

    def _asset(self, name: str) -> str:
        """The address of a copy of a file, seen from this page; its name changes with its content."""
        source = self._file(name).resolve()
        self.env.note_dependency(str(source))
        content = source.read_bytes()
        folder = hashlib.sha256(content).hexdigest()[:12]
        target = Path(self.env.app.outdir, ASSETS, folder, source.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        up = posixpath.relpath(".", posixpath.dirname(self.env.docname) or ".")
        return f"./{up}/{ASSETS}/{folder}/{source.name}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directive."""
    app.add_directive("anywidget", AnyWidget)
    return {"parallel_read_safe": True}
