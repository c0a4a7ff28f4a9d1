"""Static HTML cards of jobs, clusters and job lists, with plain-text equivalents."""
