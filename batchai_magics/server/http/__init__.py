"""The part that knows of sockets: requests become Calls, Answers responses."""
