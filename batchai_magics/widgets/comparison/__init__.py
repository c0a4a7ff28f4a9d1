"""The live comparison of runs, and the live view of a sweep."""
