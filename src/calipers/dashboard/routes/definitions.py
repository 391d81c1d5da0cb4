"""The meaning of every metric, from the declarations."""

from __future__ import annotations

from fastapi import APIRouter, Response

from calipers.dashboard.catalog import NotHere
from calipers.dashboard.site import SiteHere
from calipers.metrics import catalogue, metric_named
from calipers.reports.pages.families import group_by_family
from calipers.support.errors import UsageError

router = APIRouter()


@router.get("/metrics")
def show_metrics(site: SiteHere) -> Response:
    """Show what every metric means."""
    return site.render("metrics.html", families=list(group_by_family(list(catalogue()))), name=None)


@router.get("/metrics/{name}")
def show_metric(site: SiteHere, name: str) -> Response:
    """Show what one metric means."""
    try:
        found = metric_named(name)
    except UsageError as error:
        raise NotHere(error.message) from None
    return site.render("metric.html", metric=found, name=name)
