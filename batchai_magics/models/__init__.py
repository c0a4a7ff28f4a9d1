"""The 2018-05-01 resources as values: ids, specs and resources."""
