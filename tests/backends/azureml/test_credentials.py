"""Who can be asked to sign in."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from batchai_magics.backends.azureml.credentials import has_person


@pytest.mark.parametrize(
    ("shell", "is_terminal", "found"),
    [
        (SimpleNamespace(kernel=object()), False, True),
        (SimpleNamespace(), False, False),
        (None, False, False),
        (None, True, True),
    ],
)
def test_a_person_is_at_a_terminal_or_in_a_notebook(monkeypatch, shell, is_terminal, found) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys.stdin, "isatty", lambda: is_terminal)
    assert has_person() is found


def test_a_script_that_only_loads_ipython_has_no_person(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys, "stdin", None)
    assert not has_person()
