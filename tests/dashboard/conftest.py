from tests.browser import browser, watched
from tests.dashboard.dashboards import cache, kept, results, serving, site

__all__ = ["browser", "cache", "kept", "results", "serving", "site", "watched"]
