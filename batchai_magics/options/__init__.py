"""Option definitions, from which parser, help, completion and the README tables are generated."""
