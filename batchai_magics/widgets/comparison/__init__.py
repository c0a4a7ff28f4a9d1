"""The live comparison of runs."""
