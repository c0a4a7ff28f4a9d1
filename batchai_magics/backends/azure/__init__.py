"""What the clients of Azure's APIs share."""
