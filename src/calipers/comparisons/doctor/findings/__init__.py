"""Every kind of finding, listed once, in the order in which they are shown.

A kind is a function that yields what looks wrong in the facts, mostly once per system. A false
alarm is worse than silence: it yields nothing where there are few records, and nothing that chance
or a usual way to work explains.
"""

from collections.abc import Callable, Iterator

from calipers.comparisons.doctor.facts import Facts
from calipers.comparisons.doctor.findings import answers, numbers, records, tasks
from calipers.comparisons.doctor.results import Finding

KINDS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    *(records.find_bad_rows, records.find_unfinished, records.find_failed_calls),
    *(tasks.find_unclear_ids, tasks.find_duplicates, tasks.find_unequal_runs),
    *(tasks.find_missing_tasks, answers.find_swapped_labels, tasks.find_leaked_targets),
    *(answers.find_unread, answers.find_constant, answers.find_truncated),
    *(numbers.find_odd_confidence, numbers.find_odd_units, numbers.find_lengthy_judge),
    tasks.find_ceiling,
)
