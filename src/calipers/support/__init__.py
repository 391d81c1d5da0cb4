"""What all other folders use: errors, strict JSON, atomic writes, configuration files, patterns."""
