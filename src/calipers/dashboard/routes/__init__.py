"""The pages, a file per kind: each reads the address, asks, and fills a template."""
