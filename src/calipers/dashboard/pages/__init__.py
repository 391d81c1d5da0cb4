"""The pages, a module per kind: each reads the address, asks, and fills a template."""
