"""Azure Files, and what is needed of Azure Blob Storage, over the shares and containers of a backend."""
