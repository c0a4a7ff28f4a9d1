"""Machines that commands are run on and folders lie on: this one, or one at the other end of `ssh`."""
