from . import metrics as metrics
from .comparisons.agree import Agreement as Agreement
from .comparisons.api import agree as agree
from .comparisons.api import compare as compare
from .comparisons.api import power as power
from .comparisons.api import rank as rank
from .comparisons.compare_result import Compared as Compared
from .comparisons.power import PowerAnalysis as PowerAnalysis
from .comparisons.rank_result import Ranking as Ranking
from .doctor.examine import doctor as doctor
from .doctor.result import Diagnosis as Diagnosis
from .doctor.result import Finding as Finding
from .gates.decide import gate as gate
from .gates.result import GateResult as GateResult
from .judges.audit_result import Audit as Audit
from .judges.judge_api import (
    audit_judges as audit_judges,
)
from .judges.judge_api import (
    calibrate_judges as calibrate_judges,
)
from .judges.judge_api import (
    judge_records as judge_records,
)
from .judges.rubrics import Rubric as Rubric
from .metrics.checks.check import CheckKind as CheckKind
from .metrics.families.scenario_scores import CaseWeights as CaseWeights
from .records.convert import Converted as Converted
from .records.convert import read as read
from .records.limits import limit_reading as limit_reading
from .records.logs.log import log_reader as log_reader
from .reports.charts.chart import Chart as Chart
from .reports.data.report_builder import report as report
from .reports.data.report_data import Report as Report
from .reports.destinations import publish as publish
from .reports.trace_picture import trace_svg as trace_svg
from .runs.finish import RunResult as RunResult
from .runs.run import run as run
from .scores.calibration import Calibrations as Calibrations
from .scores.convert import convert as convert
from .scores.explain import Explanation as Explanation
from .scores.result import Group as Group
from .scores.result import Measured as Measured
from .scores.result import Score as Score
from .scores.score import explain as explain
from .scores.score import score as score
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
from .support.plugins import register as register
from .support.timing import Timed as Timed
from .support.timing import timed as timed
from .support.version import __version__ as __version__
from .systems.spec import FunctionSystem as FunctionSystem
