"""Readers of files and tables: bytes, lines, JSON documents, CSV, tables, streams, and joins."""
