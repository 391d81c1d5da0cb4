"""Configuration files: read safely, checked strictly, every error with its line."""
