"""Agents of other libraries as systems: recognised by what they offer, and imported by nobody."""
