"""What axe-core says of a page."""

from pathlib import Path

import pytest

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
LOOK = """([selector, tags]) => {
  window.batchaiAxe = null;
  const rules = {region: {enabled: false}, 'landmark-unique': {enabled: false}};
  axe.run(selector, {runOnly: tags, rules}).then((found) => { window.batchaiAxe = found; });
}"""
FOUND = """() => ({
  rules: [...window.batchaiAxe.passes, ...window.batchaiAxe.violations].map((rule) => rule.id),
  wrong: window.batchaiAxe.violations.map((rule) => rule.id + ': ' +
    rule.nodes.map((node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? '')).join(' | ')),
})"""


def violations(page, selector):
    """What axe-core finds wrong within the elements; that it has looked at contrasts is made sure of."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run npm ci")
    if not page.evaluate("() => !!window.axe"):
        page.evaluate(AXE.read_text() + "; void 0")
    page.evaluate(LOOK, [selector, TAGS])
    page.wait_for_function("() => window.batchaiAxe")
    found = page.evaluate(FOUND)
    assert "color-contrast" in found["rules"]
    return found["wrong"]
