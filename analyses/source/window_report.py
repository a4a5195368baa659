"""What answers say about a window: its steps, ranks, hosts and near-critical work.

Every sentence and table is made of facts (:mod:`analyses.source.window_facts`): none asks a graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from analyses.display.phrases import (
    LATENCY,
    NOT_RECORDED,
    OTHER_STEP,
    RANKS_LISTED,
    batch_sizes,
    counted_steps,
    engine_idle,
    median_length,
    more_ranks,
    other_phase,
    short_label,
)
from analyses.display.sentence_format import and_more, brief_duration, brief_share, counted, enumerated, quoted
from analyses.display.text_layout import Line, clipped, duration_text, percent, table
from analyses.source.window_facts import ALIKE, DefaultWindow, RanksOnPath, StepFacts, WindowFacts
from hta_graph.base.text.shorten import short_names
from hta_graph.paths.engine_step_table import EngineStepRow
from hta_graph.paths.windows import Window
from hta_graph.trace.engine_steps import BY_GRAPH_LAUNCH

NO_GPU = "no GPU activity in the trace"
LONGER_NAMED = 3
"""More longer steps than this are counted."""
KINDS_NAMED = 3
"""More kinds of steps than this are counted."""
ALTERNATIVES = "alternative paths to the end of the window: the longest of each kind that is not on the critical path"

EACH_GRAPH_LAUNCH = (
    "No annotation names a step: each graph launch is taken as one, because the host waits for the GPU between them."
)


NOISE_SAID_NS = 5_000
"""Where bounds contradict each other by less, no answer depends on it."""


def clock_lines(clocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say of the clocks (``graph.gpu_clock``) that are not the host's how far they are ahead or behind, in one line."""
    told = [
        _gpu_clock(offsets, clock["pieces"][0]["drift_ppm"], noise)
        for clock in clocks
        for noise in [clock["noise_ns"] if clock["noise_ns"] >= NOISE_SAID_NS else 0]
        if any(offsets := [piece["offset_ns"] or 0 for piece in clock["pieces"]]) or noise
    ]
    return told if len(told) < 2 else [f"{told[0]} The clocks of {counted(len(told) - 1, 'other device')} also differ."]


def _gpu_clock(offsets_ns: Sequence[int], drift_ppm: float, noise_ns: int) -> str:
    """Say how far a GPU clock is ahead of the host clock, in each part of the trace, and that this is corrected."""
    if noise_ns:
        return f"The GPU and host clocks contradict each other by up to {brief_duration(noise_ns)}."
    if len(offsets_ns) > 1:
        jumps = "once" if len(offsets_ns) == 2 else f"{len(offsets_ns) - 1} times"
        low, high = _ahead_or_behind(min(offsets_ns)), _ahead_or_behind(max(offsets_ns))
        return f"The GPU clock jumps {jumps} ({low} to {high} the host clock); GPU times are corrected."
    drift = f" and drifts by {drift_ppm:.0f} ppm" if drift_ppm else ""
    return f"The GPU clock is {_ahead_or_behind(offsets_ns[0])} the host clock{drift}; GPU times are corrected."


def _ahead_or_behind(offset_ns: int) -> str:
    return f"{brief_duration(abs(offset_ns))} {'ahead of' if offset_ns > 0 else 'behind'}"


def sync_record_lines(diagnostics: Mapping[str, int]) -> list[str]:
    """Warn where the file's synchronization records contradict its times and are set aside."""
    contradicted = diagnostics["sync_records_contradicted"]
    if contradicted:
        return [
            (
                f"Synchronization records were not used: {counted(contradicted, 'record')} name work that ended after "
                "the call returned. Waits are inferred instead."
            )
        ]
    return []


def unknown_wait_lines(calls: int, names: Sequence[str]) -> list[str]:
    """Name the calls that are taken as waits for the GPU by their times alone."""
    if names:
        return [
            (
                f"{', '.join(short_names(names[:NAMES_LISTED]))}: {counted(calls, 'call')} taken as waits. No record "
                "says that they wait, but they return when the GPU runs out of work."
            )
        ]
    return []


def clock_notes(clocks_of: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Name the ranks whose GPU clock is not the host's."""
    return [
        f"Rank {rank}: {line[0].lower()}{line[1:]}"
        for rank, clocks in clocks_of.items()
        for line in clock_lines(clocks)
    ]


NAMES_LISTED = 3


def window_lines(facts: WindowFacts) -> list[str]:
    """Name a window and its lengths: iteration, latency and time on the CPU are different things."""
    window, length, has_gpu, is_first = facts.window, facts.length_ns, facts.has_gpu, facts.is_first_step
    label, on_cpu = short_label(window.label), f"{duration_text(window.cpu_ns)} on the CPU"
    if not window.is_named:
        # The recording may be longer on both sides: events without work before it, polls behind it.
        return [_part_of_trace(label, length, is_whole=window.label == "whole trace", has_gpu=has_gpu)]
    if window.step is not None and window.form == "gpu" and (facts.is_job or (is_first and has_gpu)):
        if is_first and facts.row is not None and not facts.is_job:
            from_first = "from its first GPU work (no previous step) to the end of that work"
            return [f"{label}: {duration_text(length)}, {from_first}"]
        return [_job_iteration(label, length, is_first=is_first)]
    if not has_gpu:
        follows = [_iteration(window.gpu_ns)] if window.form == "gpu" and not is_first else []
        return [f"{label}: {'; '.join([*follows, on_cpu, NO_GPU])}"]
    latency = f"latency {duration_text(length)}, from its start to the end of its last work"
    iteration = "iteration: not recorded (no previous step)" if is_first else _iteration(window.gpu_ns)
    if window.step is None:
        return [f"{label}: {latency}; {on_cpu}" if window.form == "usual" else f"{label}: {on_cpu}"]
    if window.form == "usual":
        of_latency = (
            ["  Percentages are of the latency; use --gpu-window for the iteration."] if facts.has_iteration else []
        )
        return [f"{label}: {latency}", f"  {iteration}; {on_cpu}", *of_latency]
    return (
        [f"{label}: {on_cpu}", f"  {iteration}"] if window.form == "cpu" else [f"{label}: {iteration}", f"  {on_cpu}"]
    )


def _part_of_trace(label: str, length_ns: int, *, is_whole: bool, has_gpu: bool) -> str:
    """Name a window without a name of its own, or the whole trace."""
    extent = ", from the first operator, call or GPU activity to the end of the last work" if is_whole else ""
    return f"{label}: {duration_text(length_ns)}{extent}{'' if has_gpu else f'; {NO_GPU}'}"


def _job_iteration(label: str, length_ns: int, *, is_first: bool) -> str:
    """Name the iteration of a job; before the first step nothing is recorded."""
    if is_first:
        return f"{label}: {duration_text(length_ns)}, from its start (no previous step) to the end of its work"
    return (
        f"{label}: iteration {duration_text(length_ns)}, from the end of the previous step's work on all ranks to the "
        "end of this step's work"
    )


def _iteration(gpu_ns: int) -> str:
    """Name an iteration."""
    return f"iteration {duration_text(gpu_ns)}, from the end of the previous step's work to the end of this step's work"


def window_name(window: Window) -> str:
    """Name a window as a sentence does: "step 2", "the whole trace"."""
    if window.step is not None:
        return f"step {window.step}"
    if window.is_whole:
        return "the whole trace"
    return quoted(window.label) if window.is_named else "the window"


def headline_subject(facts: WindowFacts) -> str:
    """Name a window in front of a colon; of an engine's steps phase, count and batch."""
    row, alike = facts.row, facts.alike
    if row is None:
        return window_name(facts.window).removeprefix("the ")
    if not facts.window.is_default:
        return f"{row.label}{_sizes([row])}"
    return counted_steps(len(alike), row.phase, _sizes(alike), [one.graph_launches for one in alike])


def measured_subject(facts: WindowFacts) -> str:
    """Name a window as :func:`headline_subject` does; where it is the median of an engine's steps, with its length."""
    subject = headline_subject(facts)
    return f"{subject}, {median_length(facts.length_ns)}" if facts.represents_phase else subject


def _sizes(rows: Sequence[EngineStepRow]) -> str:
    requests = [row.engine.requests for row in rows if row.engine.requests is not None]
    tokens = [row.engine.tokens for row in rows if row.engine.tokens is not None]
    return batch_sizes(requests, tokens, rows[0].engine.image_size)


PHASES_NAMED = 3
"""How many other phases a headline names, those that take most time first."""


def _engine_lengths(row: EngineStepRow, facts: WindowFacts) -> list[str]:
    """Name the iteration of an engine's step, what of it the GPU is idle, what the latency waits for, other phases."""
    is_job, length = facts.is_job, facts.length_ns
    named = [median_length(length)] if facts.represents_phase else _lengths(None, length, None, None)
    if not is_job:
        before_first = max(row.idle_before_ns - row.before_recording_ns, 0)
        named.append(engine_idle(before_first, row.idle_ns - before_first, length, on_cpu=row.is_on_cpu))
    if (before_ns := row.unrecorded_ns) and not is_job:
        named.append(f"it first waits {brief_duration(before_ns)} for GPU work from before the recording")
    earlier = [one for one in facts.engine if one.number < row.number and len(one.rows)]
    if earlier and row.waits_ns > ALIKE * row.latency_ns and not is_job:
        what = f"{earlier[-1].label}{_sizes([earlier[-1]])}"
        named.append(f"{brief_duration(row.waits_ns)} of its {brief_duration(row.latency_ns)} latency waits for {what}")
    return ["; ".join(named + (_other_phases(row, facts.engine) if facts.window.is_default else []))]


def _other_phases(row: EngineStepRow, rows: Sequence[EngineStepRow]) -> list[str]:
    counts = Counter(one.phase for one in rows)
    time = {phase: sum(one.own_ns for one in rows if one.phase == phase) for phase in counts}
    others = sorted((phase for phase in counts if phase != row.phase), key=lambda phase: -time[phase])
    total = max(sum(time.values()), 1)
    return [other_phase(counts[one], one, time[one] / total) for one in others[:PHASES_NAMED]]


def headline_lengths(facts: WindowFacts) -> list[str]:
    """Name the lengths of a window as a headline gives them."""
    if facts.row is not None:
        return _engine_lengths(facts.row, facts)
    *others, last = _own_lengths(facts)
    return [*others, "; ".join([last, *_longer_steps(facts.longer_steps)])]


def _longer_steps(found: tuple[Sequence[int], float, int] | None) -> list[str]:
    """Say which steps take most of the time of all: a headline that is about a usual one does not speak of them.

    >>> _longer_steps(([4], 0.61, 9))
    ['step 4 takes 61% of the time of 9 steps']
    >>> _longer_steps(([4, 7], 0.93, 5))
    ['steps 4 and 7 take 93% of the time of 5 steps']
    >>> _longer_steps(([4, 14, 24, 34], 0.93, 40)), _longer_steps(None)
    (['4 longer steps take 93% of the time of 40 steps'], [])
    """
    if found is None:
        return []
    numbers, share, steps = found
    if len(numbers) > LONGER_NAMED:
        named = f"{len(numbers)} longer steps take"
    else:
        named = f"steps {enumerated(numbers)} take" if len(numbers) > 1 else f"step {numbers[0]} takes"
    return [f"{named} {brief_share(share)} of the time of {counted(steps, 'step')}"]


def _own_lengths(facts: WindowFacts) -> list[str]:
    window, length = facts.window, facts.length_ns
    if window.is_named and (window.form == "cpu" or not (facts.has_gpu or facts.is_job)):
        return _lengths(None, None, length, None)
    if not window.is_named:
        return _lengths(None, None, None, length)
    if window.step is not None and window.form == "gpu":
        return _lengths(None, length, None, None)
    return _lengths(length, window.gpu_ns if facts.has_iteration else None, None, None)


def _lengths(latency_ns: int | None, iteration_ns: int | None, cpu_ns: int | None, length_ns: int | None) -> list[str]:
    """Name the lengths of a window for a headline, those that there are."""
    named = (("latency ", latency_ns, ""), ("iteration ", iteration_ns, ""), ("", cpu_ns, " on the CPU"),
             ("length ", length_ns, ""))  # fmt: skip
    return [f"{kind}{brief_duration(ns)}{behind}" for kind, ns, behind in named if ns is not None]


def rows_after_lines(window: Window) -> list[str]:
    """Say what was recorded after the end of the work, if anything was."""
    begin = counted(window.rows_after, "event begins", "events begin")
    after = f"The window ends with its last work; {begin} later, up to {duration_text(window.after_ns)} after it."
    return [after] if window.rows_after else []


def default_lines(choice: DefaultWindow | None, steps: Sequence[StepFacts] = ()) -> list[Line]:
    """Say which window was chosen by default, with a table of steps; nothing about a window that was named."""
    if choice is None:
        return []
    facts = choice.facts
    window, found, row = facts.window, facts.steps, facts.row
    if not found:
        return [_no_steps(*choice.repeated)]
    notes = [_dropped_calls(choice.dropped_calls)] if choice.dropped_calls else []
    if row is not None and row.engine.engine == BY_GRAPH_LAUNCH:
        of_one = (
            "No annotation names a step: the only graph launch is taken as one."
            if len(found) == 1
            else EACH_GRAPH_LAUNCH
        )
        notes = [of_one, *notes]
    if len(found) == 1:
        return [f"{window.label} is the only step.", *notes]
    hidden = and_more(len(found) - len(steps), "usual step")
    listed = [*steps_in_columns(steps, on_gpu=facts.has_gpu, chosen=window.step), *hidden] if steps else []
    if row is not None:
        return [_chosen(window.label, len(facts.alike), row.phase, len(found)), *notes, *listed]
    candidates, only_first = sum(one.is_candidate for one in found), all(one.is_candidate for one in found[1:])
    return [
        _median_step(window.label, candidates, len(found), only_first=only_first),
        *([_kinds_of_steps(choice.kinds)] if choice.kinds else []),
        *listed,
    ]


def _no_steps(count: int, name: str, flags: str) -> str:
    """Say that the whole trace is analyzed, and offer the annotation that is repeated most."""
    said = "No profiler steps in this trace; the whole trace is analyzed."
    return f"{said} Use --annotation {flags} --instance I to select one of {count:,} × {name}." if count > 1 else said


def _median_step(label: str, candidates: int, steps: int, *, only_first: bool) -> str:
    """Say of how many steps one is the median, and which are excluded."""
    if candidates == steps:
        of = counted(steps, "step")
    else:
        excluded = "the first is" if only_first else "the first, and steps without GPU work or on few ranks, are"
        of = f"{candidates} of {counted(steps, 'step')} ({excluded} excluded)"
    return f"{label} is the median of {of}; {OTHER_STEP}."


def _kinds_of_steps(kinds: Sequence[tuple[str, int, int]]) -> str:
    """Say which kinds of steps there are, how often, and how long they take (ns)."""
    named = [f"{count} {name} ({duration_text(ns)})" for name, count, ns in kinds[:KINDS_NAMED]]
    more = [f"{len(kinds) - KINDS_NAMED} more"] * (len(kinds) > KINDS_NAMED)
    return (
        f"Steps of {len(kinds)} kinds, by median iteration: {', '.join([*named, *more])}. Outliers are within a kind."
    )


def _chosen(label: str, count: int, phase: str, steps: int) -> str:
    """Say of which steps one is the median."""
    if count == 1:
        return f"{label} is the only {phase} step of {counted(steps, 'step')}; use --step N for another."
    of = counted(count, f"{phase} step")
    among = f" ({counted(steps, 'step')} in all)" if steps > count else ""
    return f"{label} is the median of {of}{among}; use --step N for another."


def _dropped_calls(count: int) -> str:
    """Say which calls at the end are no steps."""
    calls = counted(count, "call of the engine", "calls of the engine")
    return f"The last {calls} launched no GPU work in the recording and {'is' if count == 1 else 'are'} not counted."


def steps_in_columns(
    steps: Sequence[StepFacts],
    *,
    on_gpu: bool,
    chosen: int | None = None,
    coverage: bool = False,
    ranks: Sequence[str] = (),
) -> list[Line]:
    """List steps: their lengths (without GPU work there is one, on the CPU), what bounds them, what is unusual.

    ``ranks`` names each step's rank where there are multiple.
    """
    rows, of_job = [one.row for one in steps], any(one.is_job for one in steps)
    lengths = ["iteration", "latency"] if on_gpu or of_job else ["on the CPU"]
    columns: dict[str, list[str]] = {
        # Of right-aligned numbers only the chosen one has a mark.
        "step": [f"{row.step}" + (" *" if row.step == chosen else "  " * (chosen is not None)) for row in rows],
        "rank": list(ranks),
        "phase": [row.phase or "" for row in rows],
        "batch": ["-" if row.requests is None else f"{row.requests:,}" for row in rows],
        "tokens": ["-" if row.tokens is None else f"{row.tokens:,}" for row in rows],
        "iteration": ["-" if one.is_first else duration_text(one.row.iteration_ns) for one in steps],
        "latency": [duration_text(row.latency_ns) for row in rows],
        "on the CPU": [duration_text(row.latency_ns) for row in rows],
        "explained": [percent(row.coverage) for row in rows],
        "largest class": [one.largest for one in steps],
        "delayed by": ["" if one.delayed_by is None else f"rank {one.delayed_by}" for one in steps],
        "outlier": [row.outlier or "" for row in rows],
    }
    sizes = ["batch", "tokens"] if any(row.phase for row in rows) else []
    numbers = [
        *(["rank"] if ranks else []),
        *(["phase"] if sizes else []),
        *sizes,
        *lengths,
        *(["explained"] if coverage else []),
    ]
    texts_shown = [
        name for name in ("delayed by", "largest class", "outlier") if name == "largest class" or any(columns[name])
    ]
    header = ["step", *numbers, *texts_shown]
    cells = list(zip(*(columns[name] for name in header), strict=True))
    texts = [at for at, name in enumerate(header) if name in ("phase", "largest class", "outlier")]
    caption = LATENCY if "latency" in header else ""
    return table(cells, header, left=texts, words=texts[1:], caption=caption)


LONGEST_HOST = 60


def rank_lines(found: RanksOnPath | None, facts: WindowFacts) -> list[Line]:
    """List the ranks on the path: its time there, how long the job waited for each alone, and its largest class."""
    if found is None:
        return []
    length = max(facts.length_ns, 1)
    rows = [
        [duration_text(one.time_ns), percent(one.time_ns / length), duration_text(one.held_ns), str(one.rank),
         facts.words[one.bound_by]]
        for one in found.ranks[:RANKS_LISTED]
    ]  # fmt: skip
    return [
        f"critical path by rank ({counted(found.switches, 'switch', 'switches')} between ranks)",
        "  others wait: the time that all other ranks wait for this rank alone",
        *table(rows, ["time", "share", "others wait", "rank", "mostly"], left=[4]),
        *more_ranks(len(found.ranks) - len(rows)),
        *_host_lines(found.by_host_ns, length),
    ]


def _host_lines(by_host_ns: Mapping[str, int], length_ns: int) -> list[Line]:
    """List the hosts that most of the path is on, where the ranks are on several."""
    every = [(host, ns) for host, ns in by_host_ns.items() if ns]
    rows = [[duration_text(ns), percent(ns / length_ns), clipped(host, LONGEST_HOST)] for host, ns in every]
    if not rows:
        return []
    listed = table(rows[:RANKS_LISTED], ["time", "share", "host"], left=[2])
    return ["", "critical path by host", *listed, *and_more(len(rows) - RANKS_LISTED, "host")]


def missing_lines(window: Window) -> list[str]:
    """Say which ranks have no such window."""
    missing = window.missing
    if not missing:
        return []
    ranks, (have, contribute) = (
        rank_names(missing),
        ("has", "contributes") if len(missing) == 1 else ("have", "contribute"),
    )
    return [f"{ranks[0].upper()}{ranks[1:]} {have} no {window.label} and {contribute} nothing."]


def rank_names(ranks: tuple[int, ...]) -> str:
    """Name some ranks, of many the first ones.

    >>> rank_names((3,)), rank_names((0, 2)), rank_names(tuple(range(20)))
    ('rank 3', 'ranks 0, 2', 'ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 more')
    """
    listed = ", ".join(map(str, ranks[:RANKS_LISTED]))
    hidden = len(ranks) - RANKS_LISTED
    return ("rank " if len(ranks) == 1 else "ranks ") + listed + (f" and {hidden} more" if hidden > 0 else "")


ALTERNATIVES_SHOWN = 10


def slack_lines(near: Mapping[str, Any], words: Mapping[str, str], *, is_job: bool) -> list[Line]:
    """Say how much work is near-critical, and which alternative paths lead to the end of the window.

    ``near`` is its record (:func:`analyses.source.window_facts.slack_record`), ``words`` what classes are called.
    """
    ranks, slack = near["by_rank"], duration_text(near["threshold_ns"])
    others = _alternative_lines(near["alternatives"], words, is_job=is_job)
    if not is_job:
        head = (
            f"near-critical work (slack below {slack}): {duration_text(ranks[0]['near_ns'])}, "
            f"{percent(ranks[0]['share'])} of the window"
        )
        return [head, *others]
    rows = [[duration_text(row["near_ns"]), percent(row["share"]), str(row["rank"])] for row in ranks]
    listed = table(rows, ["time", "share", "rank"])
    return [f"near-critical work (slack below {slack}), by rank", *listed, "", *others]


def _alternative_lines(ways: Sequence[Mapping[str, Any]], words: Mapping[str, str], *, is_job: bool) -> list[Line]:
    if not ways:
        return ["No other rank or class of work is near-critical."]
    rows = [
        [
            duration_text(way["slack_ns"]), duration_text(way["near_ns"]), *([str(way["rank"])] if is_job else []),
            words[way["bound_by"]], way["name"] or NOT_RECORDED,
        ]
        for way in ways[:ALTERNATIVES_SHOWN]
    ]  # fmt: skip
    header = [name for name in ("slack", "near-critical", "rank", "class", "through") if is_job or name != "rank"]
    texts = [len(header) - 2, len(header) - 1]
    more = and_more(len(ways) - ALTERNATIVES_SHOWN, "path")
    return [
        ALTERNATIVES,
        *table(rows, header, left=texts, names=texts[1:]),
        *more,
    ]
