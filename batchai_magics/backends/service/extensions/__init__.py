"""The wire format of our own server's additions to the published API, used only by our own client."""
