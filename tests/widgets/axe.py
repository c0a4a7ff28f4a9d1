"""What axe-core says of a page."""

from pathlib import Path

import pytest

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
OF_COLOURS = ["color-contrast", "link-in-text-block"]
# The rows of a table are made alike, and the members of a class: the first stand for all.
ALIKE = ["tr:nth-child(n + 20)", "dl.py ~ dl.py ~ dl.py"]
# Of what is right one element a rule suffices: of a long page there would be thousands.
LOOK = """([context, runOnly]) => {
  window.batchaiAxe = null;
  const rules = {region: {enabled: false}, 'landmark-unique': {enabled: false}};
  axe.run(context, {runOnly, rules, resultTypes: ['violations']})
    .then((found) => { window.batchaiAxe = found; });
}"""
FOUND = """() => ({
  rules: [...window.batchaiAxe.passes, ...window.batchaiAxe.violations].map((rule) => rule.id),
  wrong: window.batchaiAxe.violations.map((rule) => rule.id + ': ' +
    rule.nodes.map((node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? '')).join(' | ')),
})"""


def violations(page, selector, *, is_recoloured=False):
    """What axe-core finds wrong within the elements; that it has looked at contrasts is made sure of.

    Where they only have other colours than when it looked at them before, those are all that it looks at.
    """
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run npm ci")
    if not page.evaluate("() => !!window.axe"):
        page.evaluate(AXE.read_text() + "; void 0")
    context = {"include": selector, "exclude": ALIKE}
    page.evaluate(LOOK, [context, OF_COLOURS if is_recoloured else TAGS])
    page.wait_for_function("() => window.batchaiAxe")
    found = page.evaluate(FOUND)
    assert "color-contrast" in found["rules"]
    return found["wrong"]
