"""Where a job's view is shown beside a notebook: a plain page served on this machine, and recordings."""
