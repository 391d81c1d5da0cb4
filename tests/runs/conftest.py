from tests.runs.suites_at_hand import quick

__all__ = ["quick"]
