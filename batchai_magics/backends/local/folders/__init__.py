"""What a backend of one machine has to do with folders beside: mount commands, the memory of MPI."""
