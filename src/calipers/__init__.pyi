from . import metrics as metrics
from .comparisons.agree import Agreement as Agreement
from .comparisons.api import agree as agree
from .comparisons.api import compare as compare
from .comparisons.api import power as power
from .comparisons.api import rank as rank
from .comparisons.doctor.api import doctor as doctor
from .comparisons.doctor.results import Diagnosis as Diagnosis
from .comparisons.doctor.results import Finding as Finding
from .comparisons.power import PowerAnalysis as PowerAnalysis
from .comparisons.rankings import Ranking as Ranking
from .comparisons.results import Compared as Compared
from .gates.api import gate as gate
from .gates.result import GateResult as GateResult
from .judges.api import (
    audit_judges as audit_judges,
)
from .judges.api import (
    calibrate_judges as calibrate_judges,
)
from .judges.api import (
    judge_records as judge_records,
)
from .judges.audit import Audit as Audit
from .judges.rubrics import Rubric as Rubric
from .metrics.checks.registered import CheckKind as CheckKind
from .metrics.scenarios.case_weights import CaseWeights as CaseWeights
from .records.api import convert as convert
from .records.api import read as read
from .records.convert import Converted as Converted
from .records.limits import limit_reading as limit_reading
from .records.logs.log import log_reader as log_reader
from .reports.api import trace_svg as trace_svg
from .reports.charts.chart import Chart as Chart
from .reports.destinations import publish as publish
from .runs.api import report as report
from .runs.api import run as run
from .runs.finish import RunResult as RunResult
from .runs.report_data import Report as Report
from .scores.api import explain as explain
from .scores.api import score as score
from .scores.calibration import Calibrations as Calibrations
from .scores.explain import Explanation as Explanation
from .scores.results import Group as Group
from .scores.results import Measured as Measured
from .scores.results import Score as Score
from .support.errors import (
    CalipersError as CalipersError,
)
from .support.errors import (
    DataError as DataError,
)
from .support.errors import (
    EmptyError as EmptyError,
)
from .support.errors import (
    MissingExtraError as MissingExtraError,
)
from .support.errors import (
    UsageError as UsageError,
)
from .support.plugins import load_plugin as load_plugin
from .support.registry import register as register
from .support.timing import Timed as Timed
from .support.timing import timed as timed
from .support.version import __version__ as __version__
from .systems.registered import FunctionSystem as FunctionSystem
