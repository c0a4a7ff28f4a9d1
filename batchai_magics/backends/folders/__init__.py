"""Files of backends whose nodes share a file system: a home and its layout, shares, mounts, output."""
