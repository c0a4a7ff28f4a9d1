"""The grammar of step lines: prefixes, a position, named numbers. `docs/metrics-grammar.md` specifies it."""
