"""Fills in what depends on who publishes the package: `publish.py owner NAME`, `publish.py version X.Y.Z`.

The account on GitHub is one setting, `owner` below `[tool.batchai]` in pyproject.toml. From it follow the
project's addresses, Binder's badge and the page for reports of vulnerabilities; an empty one removes them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAME = "batchai_magics"
NOTEBOOK = "HEAD?labpath=binder%2Fstart.ipynb"
WITHOUT_BADGE = (
    "You can try it on [Binder](https://mybinder.org) after you have pushed the repository: "
    "`make publish-as OWNER=you` adds the badge."
)


def main() -> None:
    """Rewrites the files; the arguments say what."""
    match sys.argv[1:]:
        case ["owner", owner] if re.fullmatch(r"|[A-Za-z0-9][A-Za-z0-9-]*", owner):
            changed = {name: text for name, text in as_owner(owner).items() if text != _read(name)}
        case ["version", version] if re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?", version):
            changed = {f"{NAME}/version.py": as_version(version)}
        case _:
            sys.exit("publish.py owner NAME | publish.py version X.Y.Z")
    for name, text in changed.items():
        (ROOT / name).write_text(text, encoding="utf-8")
        print(f"changed {name}")


def owner_of(pyproject: str) -> str:
    """The account that pyproject.toml names; empty for none."""
    (owner,) = re.findall(r'^owner = "([^"]*)"', pyproject, re.MULTILINE)
    return str(owner)


def as_owner(owner: str) -> dict[str, str]:
    """The files that name the owner, by their paths."""
    address = f"https://github.com/{owner}/{NAME}"
    pyproject = re.sub(r'^owner = "[^"]*"', f'owner = "{owner}"', _read("pyproject.toml"), flags=re.MULTILINE)
    return {
        "pyproject.toml": _between("# urls", urls(owner, address), pyproject),
        "README.md": _between("<!-- binder -->", badge(owner), _read("README.md")),
        ".github/ISSUE_TEMPLATE/config.yml": contacts(owner, address),
    }


def urls(owner: str, address: str) -> str:
    """The project's addresses as pyproject.toml lists them."""
    if not owner:
        return ""
    lines = {
        "Homepage": address,
        "Documentation": f"https://{owner.lower()}.github.io/{NAME}/",
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
    }
    return "[project.urls]\n" + "".join(f'{name} = "{url}"\n' for name, url in lines.items())


def badge(owner: str) -> str:
    """What the README says of Binder."""
    if not owner:
        return f"{WITHOUT_BADGE}\n"
    image = "[![Binder](https://mybinder.org/badge_logo.svg)]"
    link = f"https://mybinder.org/v2/gh/{owner}/{NAME}/{NOTEBOOK}"
    return f"{image}({link})\nopens a replay and a first job in the browser, without installing anything.\n"


def contacts(owner: str, address: str) -> str:
    """The form of GitHub that leads to private reports."""
    if not owner:
        return "blank_issues_enabled: true\n"
    return (
        "blank_issues_enabled: true\n"
        "contact_links:\n"
        "  - name: A security vulnerability\n"
        f"    url: {address}/security/advisories/new\n"
        "    about: Report it privately\n"
    )


def as_version(version: str) -> str:
    """The module that holds the version."""
    return re.sub(r'__version__ = "[^"]*"', f'__version__ = "{version}"', _read(f"{NAME}/version.py"))


def _between(mark: str, text: str, page: str) -> str:
    """The page with the text between two lines that begin with the mark."""
    begin, end = (
        re.escape(part) for part in (mark, mark.replace("<!-- ", "<!-- end of ").replace("# ", "# end of "))
    )
    return re.sub(rf"(^{begin}[^\n]*\n).*?(^{end})", lambda m: m[1] + text + m[2], page, flags=re.S | re.M)


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
