"""What every backend of ours answers alike, in the words of the service: pure, and over any store."""
