"""Options as rows: what the parser, the help text, completion and the README's tables are made from."""
