"""Renderers: a module per format writes any document."""
