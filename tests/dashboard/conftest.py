from tests.browser import browser, watched
from tests.dashboard.dashboards import cache, serving

__all__ = ["browser", "cache", "serving", "watched"]
