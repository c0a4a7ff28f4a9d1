"""Views: what the kernel pays for what is seen."""
