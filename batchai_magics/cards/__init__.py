"""Still pictures of jobs, clusters and lists of jobs: HTML cards and their plain-text twins."""
