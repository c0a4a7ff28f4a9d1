"""Jobs on this machine: nodes are folders and process groups, MPI jobs start under a real mpiexec."""
