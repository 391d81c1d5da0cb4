"""Show what was measured: terminal, Markdown, CSV, HTML. Computes no number."""
