"""Checks: tests of replies, which become S's behaviors."""
