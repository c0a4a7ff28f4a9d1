"""How costs grow with the size of a job, and with the users and the history of a server: docs/scale.md."""
