import typing

PROFILES: tuple[str, ...]

if typing.TYPE_CHECKING:  # noqa: PYI002 (mypy reads these last: the modules import this one)
    from .declare.declaration import Metric as Metric
    from .lookup import METRICS as METRICS
    from .lookup import catalogue as catalogue
    from .lookup import metric_named as metric_named
    from .lookup import metrics_of as metrics_of
    from .user_defined import mean as mean
    from .user_defined import quantile as quantile
    from .user_defined import sum as sum  # noqa: A004 (as in a spreadsheet)
