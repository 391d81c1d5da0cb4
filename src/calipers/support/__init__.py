"""What every room stands on: errors, strict JSON, whole files, configuration files, patterns."""
