"""The control plane shared by our backends: the service's operations, errors and quotas, private files."""
