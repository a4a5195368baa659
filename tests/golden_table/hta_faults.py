"""What is wrong, or chosen otherwise, in HTA: each is a switch of the recomputation."""

from __future__ import annotations

from enum import Enum

__all__ = ["Fault", "Faults"]


class Fault(Enum):
    """A letter for the table, the section of the notes beside the golden answers about it, and what it means."""

    ROUNDED = ("r", "0.3", "times of nanosecond traces are rounded: starts up, ends down, durations may become -1 µs")
    FLOATS = ("f", "0.3", "with rounding off, times are floats: 0.25 µs apart where they count from 1970")
    OPERATORS = ("t", "1 (b)", "CPU operators that carry a stream number (Triton) count as GPU work")
    SYNC_RECORDS = ("s", "1 (a)", "records of synchronisation count as GPU work")
    LATE_CUT = ("w", "0.4", "the window ends where the GPU begins with the last step, not the CPU")
    COPIES_APART = ("v", "0.4", "annotations on the GPU are cut by their own time, not with what they annotate")
    COPIES_COUNT = ("k", "11.1", "annotations on the GPU count as rows of the CPU")
    NAMES_ALONE = ("n", "0.6", "the type of work is guessed from the name alone")
    TWICE = ("a", "3", "beyond num_kernels names, statistics are over sums of names instead of runs")
    QUANTILE = ("q", "3", "duration_ratio is a quantile over names instead of a share of time")
    FEW_CALLS = ("c", "5.1, 6, 7", "launches by calls that it does not list are left out")
    ABSENT_IS_FIRST = (
        "e",
        "4 (2)",
        "work without a launch is taken for launched by the first row of the file, or in time",
    )
    NEGATIVE_GAPS = (
        "g",
        "4 (3)",
        "gaps run from the end of the row before, not from the latest end, and may be negative",
    )
    ANY_ORDER = ("o", "5.1", "the order of equal times or counts is left to chance (an unstable sort)")
    EMPTY_STRETCHES = ("E", "3", "combinations of types that last no time are listed")
    TRUNCATED = ("u", "3", "each stretch of the partition by types is cut to whole µs")
    RESIDUES = ("z", "5.4", "running sums of floats leave residues where 0 is meant")
    LAST_STREAM = ("l", "5.3", "only the last stream of a rank is kept")
    OTHER_THREADS = ("h", "7", "an operator of another thread may own a launch")
    EQUAL_STARTS = ("j", "7", "of operators that start together the first in the file owns a launch, not the innermost")
    LEAST_DEPTH = ("d", "8 (b)", "only rows of the least depth in the whole rank count, of any category")
    WRONG_STEP = ("i", "0.5", "rows are put into the step that the GPU worked on when they started")
    NEW_NAMES_LAST = ("m", "11.1", "names of the second run alone stand behind the others")
    BY_TIMES = ("y", "9", "rows of equal times on other streams are marked too")
    LATE_STARTS = ("p", "10", "one kernel name decides, by its latest starts, ties by chance")
    UNRESOLVED = ("x", "1 (a)", "4294967295, which stands for an unknown stream, is a stream")
    NO_EMPTY_FILE = ("b", "5.6", "no file is written where there is nothing to draw")

    def __init__(self, letter: str, section: str, meaning: str) -> None:
        self.letter = letter
        self.section = section
        self.meaning = meaning

    @property
    def is_choice(self) -> bool:
        """Whether both ways have something for themselves, or chance decides; the rest are errors."""
        return self.name in ("COPIES_APART", "NO_EMPTY_FILE", "EMPTY_STRETCHES", "NEW_NAMES_LAST", "ANY_ORDER")


Faults = frozenset[Fault]
