"""Files of backends whose nodes share a file system: the home and its layout, shares, mounts, output."""
