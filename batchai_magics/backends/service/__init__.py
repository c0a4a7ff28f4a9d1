"""What every backend of ours answers alike, in the words of the service, and how it keeps files private."""
