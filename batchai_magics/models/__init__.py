"""The 2018-05-01 resources as values: ids, descriptions (…Spec) and resources as they stand."""
