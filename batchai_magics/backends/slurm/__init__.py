"""Jobs on a Slurm cluster. Slurm allocates the nodes; everything else is in files that all nodes share.

`client` runs Slurm's commands, `parse` reads their output, and `sbatch` makes what it is given. `node`
holds the programs that run on nodes; they use only the standard library.
"""
