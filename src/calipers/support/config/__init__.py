"""Files that people write: read safely, checked strictly, every complaint with its line."""
