"""Every kind of finding, listed once, in the order in which they are shown."""

from calipers.comparisons.doctor.findings.bad_rows import BadRows
from calipers.comparisons.doctor.findings.ceiling import Ceiling
from calipers.comparisons.doctor.findings.confidence import Confidence
from calipers.comparisons.doctor.findings.constant_answers import ConstantAnswers
from calipers.comparisons.doctor.findings.duplicates import Duplicates
from calipers.comparisons.doctor.findings.failed_calls import FailedCalls
from calipers.comparisons.doctor.findings.ids import Ids
from calipers.comparisons.doctor.findings.kind import FindingKind
from calipers.comparisons.doctor.findings.labels import Labels
from calipers.comparisons.doctor.findings.leaked_targets import LeakedTargets
from calipers.comparisons.doctor.findings.lengthy_judge import LengthyJudge
from calipers.comparisons.doctor.findings.missing_tasks import MissingTasks
from calipers.comparisons.doctor.findings.truncated import Truncated
from calipers.comparisons.doctor.findings.unanswered import Unanswered
from calipers.comparisons.doctor.findings.unequal_runs import UnequalRuns
from calipers.comparisons.doctor.findings.unfinished import Unfinished
from calipers.comparisons.doctor.findings.units import Units

KINDS: tuple[type[FindingKind], ...] = (
    *(BadRows, Unfinished, FailedCalls, Ids, Duplicates, UnequalRuns, MissingTasks),
    *(Labels, LeakedTargets, Unanswered, ConstantAnswers, Truncated, Confidence, Units),
    *(LengthyJudge, Ceiling),
)
