"""The live view of runs side by side."""
