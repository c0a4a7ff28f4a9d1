"""The wire format of our own server's additions to the published API; only our own client uses it."""
