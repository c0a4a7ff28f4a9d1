"""How a description is read: JSON or YAML, in any spelling, with every problem named."""
