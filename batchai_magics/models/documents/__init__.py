"""Reading of spec files: JSON or YAML, legacy names, all problems reported."""
