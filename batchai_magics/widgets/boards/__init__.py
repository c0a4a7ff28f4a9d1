"""The live views of clusters and of lists of jobs."""
