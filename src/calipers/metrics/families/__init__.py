"""The library's metrics, a file per family; the catalogue walks these files."""
