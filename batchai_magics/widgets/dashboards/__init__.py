"""The dashboards of clusters and of lists of jobs."""
