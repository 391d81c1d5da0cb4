"""What the tests of the command line share."""

from tests.cli.scored_data import data

__all__ = ["data"]
