"""Authentication, ownership of resources, TLS certificates, the access log."""
