"""Jobs on a Ray cluster, as an engine of the service."""
