"""The dashboard: a local web app over result folders and any file that `score` reads. Read-only."""
