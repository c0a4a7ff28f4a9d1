"""The grammar of step lines: prefixes, a position, named numbers. `docs/numbers.md` is its specification."""
