"""What builds the documentation: pages from declarations, console blocks, pictures."""
