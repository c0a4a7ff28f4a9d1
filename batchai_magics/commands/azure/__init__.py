"""What tutorials call of `az` beside `az batchai`, on the backend's groups, accounts and storage."""
