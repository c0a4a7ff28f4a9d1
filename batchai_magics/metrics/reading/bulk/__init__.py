"""Whole logs at the speed of a search: the records of big blocks as columns."""
