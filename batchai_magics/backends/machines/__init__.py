"""The machines that commands run on and files are stored on: this one, or an ssh host."""
