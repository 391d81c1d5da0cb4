"""Pictures of traces."""
