"""The record, every way to read records, and every way to write them."""
