"""What is sent to the other end of `ssh` and run there: Python 3.6, the standard library, and these files."""
