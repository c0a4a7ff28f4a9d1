"""Programs that run on a node: copied to wherever nodes are, standard library only."""
