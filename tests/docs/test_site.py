"""The documentation site, built once: no warning, no dead link, usable narrow and wide, light and dark."""

import fcntl
import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

from tests.patience import PATIENCE_S
from tests.widgets.axe import violations

ROOT = Path(__file__).parents[2]
# Those that have all kinds of elements between them: cards, code, tables, signatures, replays.
PAGES = ["index", "start", "how-to/stop", "python-api", "gallery"]
WIDE, NARROW = 1280, 500  # pixels

HAS_THEME = """(theme) => document.documentElement.dataset.theme === theme
  && !document.getAnimations().some((one) => one instanceof CSSTransition)"""
TO_THE_END = "slider => { slider.value = slider.max; slider.dispatchEvent(new Event('input')); }"

CUT_OFF = """() => [...document.querySelectorAll("main :is(h1, h2, p, li, dt, img, table, pre)")]
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
  .filter((element) => !element.parentElement.closest("pre, table, .widget, nav, dialog"))
  .map((element) => element.outerHTML.slice(0, 120))"""  # but for what scrolls in itself

pytestmark = [pytest.mark.slow]


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.add(values.get("id"))
        self.links.update(filter(None, (values.get("href"), values.get("src"))))


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site as `make docs` builds it, by the first worker that needs it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "site"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            build(folder)
            (folder / "built").touch()
    return folder / "html"


def build(folder):
    """Builds the site, which has to have no warning."""
    (line,) = re.findall(r"-m (sphinx .*) build/docs$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    command = [sys.executable, "-m", *line.split(), "-d", folder / "trees", folder / "html"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S * 4
    )
    assert done.returncode == 0, done.stderr


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, and logs no request."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    """The address of the site at a server of its own: browsers load no modules from files."""
    handler = functools.partial(Quiet, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_link_inside_leads_to_a_page_and_an_anchor(site):
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    dead = [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        for link in page.links
        if not urlsplit(link).scheme and not leads_somewhere(link, path, pages)
    ]
    assert dead == []


def leads_somewhere(link, path, pages):
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target not in pages:
        return target.is_file()
    return not parts.fragment or unquote(parts.fragment) in pages[target].anchors


def test_no_page_asks_another_host_for_anything(site):
    loaded = re.compile(
        r"""<(?:script|img|iframe)[^>]*src="https?://|<link[^>]*stylesheet[^>]*href="https?://"""
    )
    assert [
        path.name for path in site.rglob("*.html") if loaded.search(path.read_text(encoding="utf-8"))
    ] == []


@pytest.mark.browser
def test_pages_have_no_fault_that_axe_finds_in_either_theme_and_fit_a_narrow_window(address, chrome):
    page = chrome.new_page()
    for name in PAGES:
        page.set_viewport_size({"width": WIDE, "height": 800})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            if theme == "light":
                page.goto(f"{address}/docs/{name}.html")
            page.wait_for_function(HAS_THEME, arg=theme)
            assert violations(page, "main", is_recoloured=theme == "dark") == [], (name, theme)
        page.set_viewport_size({"width": NARROW, "height": 800})
        page.wait_for_function("(width) => innerWidth === width", arg=NARROW)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= NARROW, name
        assert page.evaluate(CUT_OFF) == [], name
    page.close()


@pytest.mark.browser
def test_the_landing_page_replays_a_job_from_start_to_end(address, chrome):
    page = chrome.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    view = page.locator(".widget .ba-view")
    for state in ("running", "succeeded"):
        expect(view.first).to_contain_text(state, timeout=1000 * PATIENCE_S)
    expect(page.locator(".widget")).to_contain_text("validated after step 120")
    assert errors == []
    page.close()


@pytest.mark.browser
def test_the_gallery_says_which_process_failed(address, chrome):
    page = chrome.new_page()
    page.goto(f"{address}/docs/gallery.html")
    failure = page.locator(".widget").nth(1)
    failure.locator(".ba-scrubber").evaluate(TO_THE_END)
    expect(failure).to_contain_text("shard-0040.tar is not in the share", timeout=1000 * PATIENCE_S)
    page.close()


def test_a_flowchart_is_a_table(site):
    text = (site / "docs/architecture.html").read_text(encoding="utf-8")
    assert "flowchart" not in text
    assert "<p>CellRequest</p>" in text
