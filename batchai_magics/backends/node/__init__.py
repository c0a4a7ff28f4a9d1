"""Programs that run on a node. Standard library only: they are copied to wherever nodes are."""
