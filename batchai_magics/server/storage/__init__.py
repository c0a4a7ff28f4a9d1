"""Azure Files and a subset of Azure Blob Storage, on top of a backend's shares and containers."""
