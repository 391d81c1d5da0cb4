"""Agents of other libraries as systems: recognised by their methods, without importing them."""
