from tests.runner.suites_at_hand import quick

__all__ = ["quick"]
