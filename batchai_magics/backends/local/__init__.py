"""Jobs on this machine: nodes are folders and process groups."""
