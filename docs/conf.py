"""Configuration of the documentation site: `make docs`.

The source folder is the repository: links among pages, notebooks and the pages at its top work as on GitHub.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ipython_pygments_lexers import IPython3Lexer

from batchai_magics.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "batchai_magics"
author = "The batchai_magics authors"
release = __version__

sys.path.insert(0, str(Path(__file__).parent))

extensions = [
    "anywidget_directive",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
root_doc = "docs/index"
include_patterns = ["docs/**", "notebooks/**.ipynb", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = [
    ".*",
    "**/.ipynb_checkpoints",
    "benchmarks",
    "build",
    "dist",
    "node_modules",
    "out",
    "tests",
    "batchai_magics",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"
default_role = "code"  # docstrings have single backquotes
autodoc_member_order = "bysource"
autodoc_typehints = "description"

html_theme = "pydata_sphinx_theme"
html_title = "batchai_magics"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {"CHANGELOG": []}  # pages without a section have nothing to list there
for page in ("index", "start", "gallery", "troubleshooting", "glossary"):
    html_sidebars[f"docs/{page}"] = []
html_theme_options = {
    "logo": {"text": "batchai_magics"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def mark_code(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Marks indented lines after a paragraph of a docstring as code."""
    for i in range(len(lines) - 1, 1, -1):
        paragraph, blank, line = lines[i - 2 : i + 1]
        is_paragraph = paragraph and not paragraph.startswith(" ") and not paragraph.endswith(":")
        if is_paragraph and not blank and line.startswith("    "):
            lines[i - 1 : i] = ["", "::", ""]


FLOWCHART = re.compile(r"^```mermaid\nflowchart \w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EDGE = re.compile(r'(\w+)(?:\["([^"]*)"\])? *-->(?:\|"([^"]*)"\|)? *(\w+)(?:\["([^"]*)"\])?')


def tabulate_flowcharts(app: Sphinx, name: str, source: list[str]) -> None:
    """Writes the flowcharts, which GitHub draws, as tables: a row an arrow."""
    source[0] = FLOWCHART.sub(_table_of_flowchart, source[0])


def _table_of_flowchart(chart: re.Match[str]) -> str:
    edges = EDGE.findall(chart[1])
    labels = {
        name: label for a, first, _, b, last in edges for name, label in ((a, first), (b, last)) if label
    }
    rows = [(labels[a], f"`{by}`" if by else "", labels[b]) for a, _, by, b, _ in edges]
    return "\n".join(f"| {' | '.join(row)} |" for row in [("from", "by", "to"), ("---",) * 3, *rows])


def setup(app: Sphinx) -> None:
    """Reads Python as notebooks do, where `%%batchai_job` is no error of syntax, and code in docstrings."""
    app.connect("autodoc-process-docstring", mark_code, priority=400)  # before napoleon
    app.add_lexer("python", IPython3Lexer)
    app.connect("source-read", tabulate_flowcharts)
