"""Reasoning (Z): the shape of a chain of thought, and the equations in it."""
