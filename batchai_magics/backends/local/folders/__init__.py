"""What lies below `$BATCHAI_HOME`: nodes, mounts, shares, outputs."""
