"""Shares through azure-storage-file-share: any account's Azure Files, and those of our own server."""
