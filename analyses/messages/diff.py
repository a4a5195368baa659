"""Sentences of diff: the verdict on two runs or jobs, what changed, and what limits the comparison.

The two runs are "before" and "after" here, and ``control`` and ``test`` in JSON and CSV.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from analyses.display.labels import SHORT_IN_JOBS
from analyses.display.sentence_format import brief_share, counted, enumerated, quoted
from analyses.display.text_layout import clipped, duration_text
from hta_graph.base.errors import Remedy
from hta_graph.base.text.formatting import signed_milliseconds
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_name

BEFORE_AFTER = {"control": "before", "test": "after"}
"""Each side, as sentences name it."""
LONGEST_NAME = 60
FACTS_LISTED = 4
"""How many differences of the environment the first line lists."""

LENGTH = {
    "iteration": "iteration time",
    "latency": "latency",
    "time on the CPU": "CPU time",
    "window": "time",
    "whole trace": "length",
}
"""What each measure is called in a sentence."""
SLOWER_IN = {"iteration": " per iteration", "latency": " by latency", "time on the CPU": " in CPU time"}
OTHER_GPU, OTHER_RANK, OTHER_WORK = "on a different GPU", "on a different rank", "with mostly different operators"
OTHER_RANKS = "with different ranks recorded"
"""Caveats, as they are part of the verdict."""
NOT_ONE_CHANGE = "The runs differ in more than the program: do not report this as the effect of a code change."
RANKS_WAIT = (
    "Ranks of a job wait for each other; run hta-graph stragglers on all ranks to see which one delays the others."
)
WARMS_UP = "Each step is the first of its trace and may include warm-up."
SAME_WORK = "The lengths compare speed only if both traces contain the same amount of work."

FIGURE_TITLE, FIGURE_AXIS, NOTHING_CHANGED = "Change of the critical path by class", "after − before, ms", "no change"
VERSIONS = {
    "pytorch_version": "PyTorch",
    "cuda_runtime_version": "CUDA",
    "cuda_driver_version": "CUDA driver",
    "cupti_version": "CUPTI",
    "hip_runtime_version": "HIP",
    "hip_driver_version": "HIP driver",
    "nccl_version": "NCCL",
    "schemaVersion": "trace schema",
}
"""Keys of a trace's header, as the table of the environment names them."""
DTYPE = "dtype of most work"
NOISE = (
    "Noise: how far runs of the same program can differ by chance, estimated from the spread of their steps or of "
    "repeated kernels and operators."
)
NOT_RECORDED, NO_GPU = "not recorded", "no GPU work"


def other_size(before: int, after: int) -> str:
    """Return the caveat of jobs of different sizes."""
    return f"with {after} ranks instead of {before}"


def shapes_of(operator: str) -> str:
    """Name the input shapes of an operator in the table of the environment."""
    return f"input shapes ({operator})"


def environment_line(facts: Sequence[tuple[str, str, str]]) -> str:
    """List what differs in the environment.

    >>> environment_line([("GPU", "A100", "V100")])
    'Also different: GPU A100 → V100.'
    """
    listed = [f"{what} {was} → {now}" for what, was, now in facts[:FACTS_LISTED]]
    hidden = len(facts) - FACTS_LISTED
    more = [f"{hidden} more in the environment table"] if hidden > 0 else []
    return f"Also different: {'; '.join([*listed, *more])}."


def percent(share: float, *, sign: bool = False) -> str:
    """Print a share with one decimal.

    >>> percent(0.031), percent(-0.5, sign=True), percent(210.442)
    ('3.1%', '-50.0%', '21,044.2%')
    """
    return f"{share:{'+' if sign else ''},.1%}"


def lengths(
    both_ns: tuple[int, int],
    counts: tuple[int, int],
    labels: tuple[str, str] | None,
    *,
    kinds: int = 1,
    compared_by: str = "medians",
) -> str:
    """Print both lengths: medians of several steps, otherwise with the labels of the windows, if any are given.

    >>> lengths((62_000_000, 70_000_000), (11, 12), None, kinds=2, compared_by="pairs")
    'median 62.000 ms → 70.000 ms over 11 and 12 steps of 2 kinds, compared in pairs'
    """
    was, now = map(duration_text, both_ns)
    if max(counts) > 1:
        of_kinds = f" of {kinds} kinds" if kinds > 1 else ""
        in_pairs = ", compared in pairs" if compared_by == "pairs" else ""
        figure = "mean" if compared_by == "means" else "median"
        return f"{figure} {was} → {now} over {counts[0]} and {counts[1]} steps{of_kinds}{in_pairs}"
    if labels is None:
        return f"{was} → {now}"
    before, after = (clipped(label, LONGEST_NAME) for label in labels)
    return f"{before}: {was} → {now}" if before == after else f"{before} {was} → {after} {now}"


def refused(reason: str, both: str) -> str:
    """State that there is no verdict."""
    return f"No verdict: {reason} ({both})."


def steps_alone(side: str, count: int, share: float) -> str:
    """Say that steps of one side that are not compared take much of its time, as part of the verdict.

    >>> steps_alone("test", 2, 0.74)
    'without 2 steps of the run after that have no counterpart (74% of its time)'
    """
    have = "has" if count == 1 else "have"
    of_run = f"{counted(count, 'step')} of the run {BEFORE_AFTER[side]}"
    return f"without {of_run} that {have} no counterpart ({brief_share(share)} of its time)"


def no_difference(
    measure: str, both: str, change: float, noise: float, since_step: str = "", caveats: Sequence[str] = ()
) -> str:
    """State that the difference is within the noise."""
    but = f", but {enumerated(caveats)}" if caveats else ""
    found = f"{both} ({percent(change, sign=True)}; noise ±{percent(noise)})"
    return f"No difference in {LENGTH[measure]} beyond noise{since_step}{but}: {found}."


def since(first_steps: tuple[int | None, int | None], *, is_new: bool) -> str:
    """Name the steps since the last change of level inside either run; ``is_new``: before it nothing differed.

    >>> since((None, 5), is_new=True), since((None, 5), is_new=False)
    (' since step 5, before it no difference', ' since step 5')
    >>> since((5, None), is_new=False), since((4, 6), is_new=False)
    (' compared with the before run since step 5', ' since step 6 compared with the before run since step 4')
    """
    before, after = first_steps
    if before is None or before == after:
        return "" if after is None else f" since step {after}{', before it no difference' if is_new else ''}"
    return f"{'' if after is None else f' since step {after}'} compared with the before run since step {before}"


def earlier_level(side: str, steps: tuple[int, int], both_ns: tuple[int, int], noise: float, *, beyond: bool) -> str:
    """Compare the steps of one run before a change of level with the other run.

    >>> earlier_level("test", (3, 4), (95_000_000, 81_000_000), 0.23, beyond=False)
    'Steps 3 to 4 after: no difference, 95.000 ms → 81.000 ms (-14.7%; noise ±23.0%).'
    """
    change = both_ns[1] / max(both_ns[0], 1) - 1
    said = f"{percent(abs(change))} {'slower' if change > 0 else 'faster'}" if beyond else "no difference"
    was, now = map(duration_text, both_ns)
    named = f"steps {steps[0]} to {steps[1]} {BEFORE_AFTER[side]}"
    which = named.capitalize() if side == "test" else f"Compared with {named}"
    return f"{which}: {said}, {was} → {now} ({percent(change, sign=True)}; noise ±{percent(noise)})."


def difference(
    measure: str, both: str, change: float, noise: float, caveats: Sequence[str], since_step: str = ""
) -> str:
    """State by how much the second run is slower or faster."""
    but = f", but {enumerated(caveats)}" if caveats else ""
    found = f"{both} (noise ±{percent(noise)})"
    size = percent(abs(change))
    if measure == "whole trace":
        return f"The whole trace is {size} {'longer' if change > 0 else 'shorter'}{but}: {found}."
    return f"{size} {'slower' if change > 0 else 'faster'}{SLOWER_IN.get(measure, '')}{since_step}{but}: {found}."


def steps_of_one_side(with_steps: str) -> str:
    """Refuse runs of which one has steps."""
    return f"only the {BEFORE_AFTER[with_steps]} run has profiler steps"


def warm_up_of_one_side(first: str) -> str:
    """Refuse steps of which one is a warm-up."""
    return f"only the {BEFORE_AFTER[first]} step is the first of its trace, a warm-up"


def other_measures(before: str, after: str) -> str:
    """Refuse lengths of different kinds."""
    return f"the before length is {_an(before)}, the after length {_an(after)}"


def other_phases(before: Sequence[str], after: Sequence[str]) -> str:
    """Refuse steps in which inference engines do different things.

    >>> other_phases(["prefill"], ["decode"])
    'most time before is in prefill steps, after in decode steps'
    """
    return f"most time before is in {' and '.join(before)} steps, after in {' and '.join(after)} steps"


def _an(measure: str) -> str:
    return f"{'an' if measure[0] in 'aeiou' else 'a'} {measure}"


def mostly_unexplained(ns: int) -> str:
    """Refuse a difference without a recorded cause."""
    return f"{duration_text(ns)} of the difference is unexplained, such as work enqueued before recording started"


def other_amount(times: float) -> str:
    """Refuse windows with different amounts of work."""
    return f"the after window contains {times:.2g} times as much of the same work"


def noise_source(
    counts: tuple[int, int], units: int, on_rank: int | None, around: tuple[int, int], least: float
) -> str:
    """Explain what the noise of few steps is estimated from: of a named step the steps around it, else repetitions.

    >>> noise_source((1, 1), 90, None, (5, 6), 0.05)
    'Only one window of each run: the noise is estimated from 5 and 6 steps around it and 90 repetitions of kernels \
and operators.'
    """
    only = "Only one window of each run" if counts == (1, 1) else f"Only {counts[0]} and {counts[1]} steps"
    where = "" if on_rank is None else f" on rank {on_rank}"
    repeated = f"{units:,} repetitions of kernels and operators{where}"
    if all(around):
        steps = f"{around[0]} and {around[1]} steps around it"
        return f"{only}: the noise is estimated from {steps}{f' and {repeated}' if units else ''}."
    if not units:
        return f"{only}, in which nothing repeats: the noise is assumed to be {percent(least)}."
    return f"{only}: the noise is estimated from {repeated}, at least {percent(least)}."


def unlike_steps(before: str, after: str) -> str:
    """Warn that two steps do different work.

    >>> unlike_steps("without save", "with save")
    'The steps do different work: the before step is one without save, the after step one with save.'
    """
    one, other = map(_shortened, (before, after))
    return f"The steps do different work: the before step is one {one}, the after step one {other}."


SAME_RECORDING = "No difference: both sides are the same recording."


def visible_difference(noise_ns: int, share: float, more: tuple[float, int] | None, *, beyond: bool) -> str:
    """State the smallest difference that could have been found, and how many steps would show a smaller one.

    >>> visible_difference(3_728_000, 0.059, (0.05, 16), beyond=False)
    'A difference below 3.728 ms (5.9%) would not be visible; to see 5.0%, record 16 steps of each run.'
    """
    size = f"{duration_text(noise_ns)} ({percent(share)})"
    said = f"Differences above {size} are visible" if beyond else f"A difference below {size} would not be visible"
    advice = "" if more is None or beyond else f"; to see {percent(more[0])}, {steps_to_record(more[1])}"
    return f"{said}{advice}."


MOST_STEPS = 1_000
"""More steps than anybody records of one run."""


def steps_to_record(steps: int) -> str:
    """Advise to record as many steps as show a difference.

    >>> steps_to_record(40), steps_to_record(39_675)
    ('record 40 steps of each run', 'more than 1,000 steps of each run are needed')
    """
    if steps > MOST_STEPS:
        return f"more than {MOST_STEPS:,} steps of each run are needed"
    return f"record {steps:,} steps of each run"


def changes_of_kinds(kinds: Sequence[tuple[str, tuple[int, int], tuple[int, int]]]) -> str:
    """List the medians of each kind of steps.

    >>> changes_of_kinds([("with save", (3, 4), (80_000_000, 88_000_000))])
    'Kinds of steps: 3 and 4 with save, 80.000 ms → 88.000 ms (+8.000 ms).'
    """
    return f"Kinds of steps: {'; '.join(_change_of_kind(*kind) for kind in kinds)}."


def _change_of_kind(name: str, counts: tuple[int, int], both_ns: tuple[int, int]) -> str:
    was, now = map(duration_text, both_ns)
    change = f"{signed_milliseconds(both_ns[1] - both_ns[0])} ms"
    return f"{counts[0]} and {counts[1]} {_shortened(name)}, {was} → {now} ({change})"


def _shortened(kind: str) -> str:
    """Shorten the name in the description of a kind."""
    words = kind.split(" ")
    count = 2 if words[1:2] in (["more"], ["fewer"]) else 1
    return " ".join([*words[:count], short_name(" ".join(words[count:]))]) if kind else "others"


def kinds_seen_once(kinds: Sequence[tuple[str, tuple[int, int], tuple[int, int]]]) -> str:
    """List the kinds that are left out of the comparison, since nothing shows how much they vary."""
    listed = "; ".join(_change_of_kind(*kind) for kind in kinds)
    return f"Too rare to show their noise, left out of the comparison: {listed}."


def kinds_of_one_side(side: str, kinds: Mapping[str, int]) -> str:
    """List the steps of kinds that the other side does not have.

    >>> kinds_of_one_side("test", {"with save": 1})
    'After: 1 step with save has no counterpart and is left out of the comparison.'
    """
    count = sum(kinds.values())
    listed = " and ".join(f"{number} step{'s' * (number > 1)} {_shortened(name)}" for name, number in kinds.items())
    have = "has no counterpart and is" if count == 1 else "have no counterpart and are"
    return f"{_side(side)}: {listed} {have} left out of the comparison."


def steps_not_judged(count: int) -> str:
    """Warn that steps of a kind that only the second run has cannot fail the comparison.

    >>> steps_not_judged(6)
    '6 steps after do what no step before does, and are not judged'
    """
    return f"{count:,} step{'s' * (count > 1)} after {'do' if count > 1 else 'does'} what no step before does, and " + (
        "are not judged" if count > 1 else "is not judged"
    )


KINDS_OF_WORK = ("Collectives", "Kernels")


def work_changed(
    what: str, moved: Mapping[str, int], new: Mapping[str, int], gone: Mapping[str, int], places: tuple[str, str]
) -> str:
    """Count the collectives or kernels that moved, are new or are gone, with the first of each and its places.

    >>> work_changed("Collectives", {"all_reduce": 2}, {}, {"broadcast": 1}, ("optimizer / step", "backward"))
    'Collectives: 2 moved (all_reduce, from optimizer to backward); 1 gone (broadcast).'
    """
    said = []
    for count, word in ((moved, "moved"), (new, "new"), (gone, "gone")):
        if count:
            name = clipped(short_name(next(iter(count))), LONGEST_NAME)
            outer = [clipped(path.split(" / ")[0], LONGEST_NAME) for path in places]
            where = f", from {outer[0]} to {outer[1]}" if word == "moved" and outer[1] and outer[0] != outer[1] else ""
            said.append(f"{sum(count.values()):,} {word} ({name}{where})")
    return f"{what}: {'; '.join(said)}."


PAIRS_LISTED = 6
"""How many differences of pairs a sentence lists; of more it counts the longer ones."""


def changes_of_pairs(differences_ns: Sequence[int], median_ns: int) -> str:
    """List the differences of the same steps, or count how many are longer.

    >>> changes_of_pairs([-960_000, -503_000], -731_000)
    'Step by step: -0.960 and -0.503 ms.'
    >>> changes_of_pairs([8_000_000] * 11, 8_000_000)
    'Step by step: 11 of 11 steps are longer, by +8.000 ms at the median.'
    """
    if len(differences_ns) <= PAIRS_LISTED:
        return f"Step by step: {enumerated([signed_milliseconds(ns) for ns in differences_ns])} ms."
    longer = sum(ns > 0 for ns in differences_ns)
    is_longer = 2 * longer >= len(differences_ns)
    count, word = (longer, "longer") if is_longer else (len(differences_ns) - longer, "shorter")
    by = f"by {signed_milliseconds(median_ns)} ms at the median"
    return f"Step by step: {count} of {len(differences_ns)} steps are {word}, {by}."


def only_some_steps(pairs_ns: tuple[int, int]) -> str:
    """Explain a difference of means that the usual step does not show."""
    was, now = map(duration_text, pairs_ns)
    return f"Only some steps are longer or shorter: the median is {was} → {now}."


def steps_not_compared(omitted: Mapping[str, Sequence[int]], *, are_first: bool) -> str:
    """List the steps that are left out of the medians.

    >>> steps_not_compared({"control": [10], "test": []}, are_first=True)
    'not compared: step 10 before (first step, warm-up)'
    """
    listed = [
        f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))} {BEFORE_AFTER[side]}"
        for side, steps in omitted.items()
        if steps
    ]
    return f"not compared: {' and '.join(listed)}{' (first step, warm-up)' if are_first else ''}"


def class_changes(changes: Sequence[tuple[str, int]]) -> str:
    """List the classes of the critical path that changed most."""
    listed = "; ".join(f"{label} {signed_milliseconds(ns)} ms" for label, ns in changes)
    return f"On the critical path: {listed}."


def largest_change(name: str, ns: int) -> str:
    """Name the event whose time on the critical path changed most."""
    return f"Largest change on the critical path: {_change(name, ns)}."


def largest_change_of_several(name: str, count: int, ns: int) -> str:
    """Name the events that differ by numbers alone and whose time on the critical path changed most.

    >>> largest_change_of_several("PP:#F#", 8, 242_450_000)
    'Largest change on the critical path: 8 annotations PP:#F#, +242.450 ms together.'
    """
    return f"Largest change on the critical path: {count:,} annotations {_change(name, ns)} together."


def hidden_changes(counts: tuple[int, int], of_class: Sequence[tuple[str, int]], of_name: tuple[str, int]) -> str:
    """Count the classes and names that changed although the whole did not, and name the largest of each.

    >>> hidden_changes((1, 3), [("CPU work", 7_000_000)], ("aten::mm", 5_000_000))
    'On the critical path, 1 class and 3 names changed beyond noise; largest: CPU work +7.000 ms; aten::mm, +5.000 ms.'
    """
    kinds = zip(counts, (("class", "classes"), ("name", "names")), strict=True)
    counted = [f"{count:,} {words[count != 1]}" for count, words in kinds if count]
    largest = [f"{label} {signed_milliseconds(ns)} ms" for label, ns in of_class] + [_change(*of_name)]
    return f"On the critical path, {enumerated(counted)} changed beyond noise; largest: {'; '.join(largest)}."


def _change(name: str, ns: int) -> str:
    return f"{clipped(name, LONGEST_NAME)}, {signed_milliseconds(ns)} ms"


def ranks_text(count: int, size: int | None, alone: str) -> str:
    """Count the ranks of a job, and list those that the other job lacks.

    >>> ranks_text(3, 4, "2"), ranks_text(4, 4, "")
    ('3 of 4, including 2', '4')
    """
    said = f"{count} of {size}" if size is not None and size > count else f"{count}"
    return f"{said}, including {alone}" if alone else said


def listed_ranks(ranks: Sequence[int], most: int) -> str:
    """List some ranks, and count the others."""
    hidden = len(ranks) - most
    return ", ".join(map(str, ranks[:most])) + (f" and {hidden} more" if hidden > 0 else "")


def ranks_not_given(side: str, missing: int, size: int) -> str:
    """Report ranks of a job whose traces are missing."""
    are, them = ("is", "it") if missing == 1 else ("are", "them")
    return f"{_side(side)}: {missing:,} of {size:,} ranks {are} missing; waiting for {them} has no recorded cause."


def steps_not_recorded(side: str, ranks: Collection[int], listed: str) -> str:
    """Report ranks that lack a compared step."""
    who = f"rank {listed} does" if len(ranks) == 1 else f"ranks {listed} do"
    return f"{_side(side)}: {who} not have every compared step and {'is' if len(ranks) == 1 else 'are'} left out there."


def _side(side: str) -> str:
    return BEFORE_AFTER[side].capitalize()


def place(rank: int | None, host: str | None) -> str:
    """Name a rank with its host, or a host.

    >>> place(1, "node-a"), place(1, None), place(None, "node-a")
    ('rank 1 (host node-a)', 'rank 1', 'host node-a')
    """
    if rank is None:
        return f"host {one_line(host or '')}"
    return f"rank {rank} (host {one_line(host)})" if host else f"rank {rank}"


def path_changed_on(where: str, ns: int, *, longer: bool) -> str:
    """Name the rank or host that most of the difference is on."""
    return f"The critical path is {'longer' if longer else 'shorter'} on {where}: {signed_milliseconds(ns)} ms."


def waits_changed(where: str, shares: tuple[float, float], cause: str, of_it: float, *, longer: bool) -> str:
    """Name the rank that delays the others now, or no longer does, and why; waits may overlap, so they are shares.

    >>> waits_changed("rank 1", (0.06, 0.99), "aten::mm", 0.9, longer=True)
    'Rank 1 now delays the others: it causes 6% → 99% of the waiting with a known cause; 90% of that in aten::mm.'
    """
    was, now = map(brief_share, shares)
    who = f"{where[0].upper()}{where[1:]}"
    delays = "now delays the others" if longer else "delays the others less"
    shown = f"it causes {was} → {now} of the waiting with a known cause"
    return f"{who} {delays}: {shown}; {brief_share(of_it)} of {'that' if longer else 'what it caused'} in {cause}."


def cause(name: str, around: str, bound: str) -> str:
    """Describe what a rank did while the others waited."""
    inside = f" in {quoted(around)}" if around else ""
    return f"{quoted(short_name(name))}{inside} ({SHORT_IN_JOBS[bound]})"


def compared_ranks(ranks: Mapping[str, int]) -> str:
    """Name the rank of each run that was compared."""
    return f"Compared: {sides(ranks)}."


def sides(ranks: Mapping[str, int]) -> str:
    """Name a rank of each side.

    >>> sides({"control": 0, "test": 1})
    'rank 0 (before) and rank 1 (after)'
    """
    return " and ".join(f"rank {rank} ({BEFORE_AFTER[side]})" for side, rank in ranks.items())


def compared_jobs(counts: Mapping[str, int], common: int) -> str:
    """Count the ranks of both jobs."""
    each = " and ".join(f"{count:,} ranks {BEFORE_AFTER[side]}" for side, count in counts.items())
    return f"Compared: {each}; {common:,} of them are in both jobs, by number."


def medians_of_steps(labels: Mapping[str, str]) -> str:
    """Explain what the tables of one rank show."""
    steps = ", ".join(f"{label} {BEFORE_AFTER[side]}" for side, label in labels.items())
    return f"Tables show medians over the steps; kernels in order compares the median steps ({steps})."


JOB_MEDIANS = "Tables show medians over the steps; waiting is summed over the ranks that wait."


def sampled_steps(side: str, listed: int, count: int) -> str:
    """Explain that the tables of a job cover some of its steps."""
    some = f"tables cover {listed} of {count:,} steps, evenly spread from short to long"
    return f"{_side(side)}: {some}; lengths cover all steps."


def of_one_rank(ranks: Mapping[str, int]) -> tuple[str, Remedy]:
    """Explain which tables compare a single rank of each job, and how to get them."""
    text = f"Kernels, operators and call paths are compared on {sides(ranks)}"
    return text, Remedy("they are in series", "use --json to write them, or --rank N for another rank")


def of_side(side: str, line: str) -> str:
    """Attribute a line to a side."""
    return f"{_side(side)}: {line.removesuffix('.')}."
