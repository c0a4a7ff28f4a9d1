"""What our own server and client say to each other beyond the published API; no other client hears of it."""
