"""The words of the report page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analyses.display import phrases
from analyses.display.sentence_format import brief_duration, brief_share, counted, enumerated, quoted, window_name

if TYPE_CHECKING:
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.paths.windows import Window

SEE_COMMAND = re.compile(r" \(see [a-z-]+\)")


def share(value: float) -> str:
    """Print a share of the path."""
    return brief_share(value)


def capitalized(text: str) -> str:
    """Return a sentence with a capital letter; a name at its start stays as recorded.

    >>> capitalized("step 2: bound by GPU compute"), capitalized("aten::mm takes 2 ms")
    ('Step 2: bound by GPU compute', 'aten::mm takes 2 ms')
    """
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text


def sentence(text: str) -> str:
    """Return a finding as a sentence of its own: with a capital letter and a period."""
    return capitalized(text) if text.endswith((".", "!", "?")) else f"{capitalized(text)}."


# -- the first screen --------------------------------------------------------------------------------------------------


def is_about_options(line: str) -> bool:
    """Return whether a line points to options of the command line, which a page does not have."""
    return "--json" in line or line.startswith("  ")


def without_commands(line: str) -> str:
    """Leave out hints to commands, which a page does not have.

    >>> without_commands("the GPU computes 68% of the time; 27% is idle time (see idle-time)")
    'the GPU computes 68% of the time; 27% is idle time'
    """
    return SEE_COMMAND.sub("", line)


def page_title(headline: str, run: str) -> str:
    """Name the page in a browser's tab and history."""
    return f"{headline} – {run}"


def headline(subject: str, bound: str, rank: int | None) -> str:
    """Name what bounds a window, and which rank."""
    cause = "mostly unexplained" if bound == "unexplained" else f"bound by {bound}"
    cause += "" if rank is None else f" on rank {rank}"
    return f"{capitalized(subject)}: {cause}"


def empty_headline(window: Window) -> str:
    """Name a window without any time."""
    return f"{capitalized(window_name(window))}: nothing to analyze, the window is empty"


def length_name(window: Window, graph: DependencyGraph) -> str:
    """Name the length of the page's window: the same words and the same window everywhere on the page."""
    if window.step is None:
        return "window"
    if window.form == "cpu":
        return "CPU time of the step"
    is_job = graph.is_job
    return "iteration" if window.form == "gpu" or is_job or not graph.is_gpu.any() else "latency"


def median_of(length: str) -> str:
    """Name a length that is the median of several steps."""
    return f"median {length}"


def of_path(bound: str) -> str:
    """Explain the share of the largest class."""
    return f"of the critical path is {bound}"


def gain(what: str, whole: str, *, halved: bool) -> str:
    """Explain what is gained without what bounds the window, or at twice its speed."""
    condition = f"with {what} at 2x speed" if halved else f"without {what}"
    return f"shorter {whole.removeprefix('the ')} {condition}"


ITERATION = "iteration"


def percentages_of(length: str, value: str) -> str:
    """Say once of what all percentages are."""
    return f"Percentages are of the {length} ({value}), unless a heading says otherwise."


def not_reliable(why: str) -> str:
    """Say that savings cannot be trusted."""
    return f"These savings are not reliable: {why}."


def savings_of(length: str, value: str) -> str:
    """Say of what the percentages of savings are, where that is not the page's window."""
    return f"Percentages of savings are of the {length} ({value})."


def largest_saving_of_actions(sure: str, *, at_most: bool) -> str:
    """Explain the largest saving of the next actions, with its confidence if that is low."""
    parts = ["largest estimated saving", *["at most"] * at_most, *[sure] * (sure == confidence("low"))]
    return ", ".join(parts)


def saving_if_faster(name: str) -> str:
    """Explain the largest saving where it is that of an assumption."""
    return f"estimated saving if {name} ran twice as fast"


def waiting_caused(rank: int, share: str, *, of_steps: bool) -> str:
    """Explain the time that the other ranks wait for one; its share is of a usual step, maybe not the page's."""
    return f"the other ranks wait for rank {rank} ({share} of {'a step' if of_steps else 'the window'})"


def saves(text: str, *, at_most: bool) -> str:
    """Say what an action saves."""
    return f"Saves at most {text}" if at_most else f"Saves {text}"


NO_SAVING = "No direct saving; the next trace explains more"
SAVINGS_OVERLAP = phrases.SAVINGS_OVERLAP
NEXT_ACTIONS = "Next actions"
WHAT_TO_TRY, WHY_NOTHING = "What to try", "Why nothing is suggested"
DETAILS = "Details"
SAVINGS_BY_REPLAY = "Savings are predicted by replaying the dependency graph with the change."


def confidence(level: str) -> str:
    """Name how sure a finding is."""
    return f"{level} confidence"


def at_most(text: str) -> str:
    """Give the upper bound of a saving."""
    return f"At most {text} can be saved."


def bring_rank_up(rank: int) -> str:
    """Name the remedy for a rank that delays the others."""
    return f"Bring rank {rank} up to the others' speed"


def if_twice_as_fast(name: str) -> str:
    """Name the assumption that an operator, kernel, module, collective or class runs at twice its speed."""
    return f"If {name} ran twice as fast"


def would_save(saved: str) -> str:
    """Say what an assumption would save."""
    return f"Would save {saved}"


def opportunity_details(
    on_path: str, removed: str, following: str | None, *, calls_others: bool, of_step: bool
) -> list[str]:
    """Explain what an operator, kernel or class would save."""
    launched = "launched in this step" if of_step else "launched in this window"
    counted_in = (
        f"counting everything it calls that was {launched}" if calls_others else f"counting what was {launched}"
    )
    said = [f"{on_path} of the path, {counted_in}; without it, {removed} would be saved."]
    return [*said, f"Next bottleneck: {following}."] if following else said


def all_findings(count: int) -> str:
    """Name the list of all findings that folds out."""
    return f"Verdict and advice: all {count} findings" if count != 1 else "Verdict: 1 finding"


NOTES = "Notes"


# -- the picture -------------------------------------------------------------------------------------------------------

WHOLE_PATH = "critical path"
OTHER_WORK = "other work, not on the critical path"
PICTURE_KEY = "Colored: on the critical path. Gray: other work."
OPEN_TIMELINE = "Open the timeline"


def picture_title(window: Window, graph: DependencyGraph) -> str:
    """Name the picture."""
    ranks = len(graph.rank_graphs)
    of_job = f", {ranks:,} ranks" if ranks > 1 else ""
    return f"Critical path of {window_name(window)}{of_job}"


def lanes_left_out(count: int) -> str:
    """Say how many lanes are not drawn."""
    return f"{counted(count, 'lane')} with less of the path are not shown." if count else ""


# -- the sections ------------------------------------------------------------------------------------------------------

CRITICAL_PATH, JOB_PATH, RANK_PATHS = "Critical path", "Critical path of the job", "Ranks"
SAVINGS, STEPS, TIMELINE, GPU = "Savings", "Steps", "Timeline", "GPU"
UNEXPLAINED, EXPORT, DETAIL_RANKS, WAITING = "Unexplained time", "Open in Perfetto", "Ranks in detail", "Waiting"

ENGINE_STEPS, ALL_ENGINE_STEPS, ENGINE_FIGURE = "Engine steps", "Engine steps one by one", "Iteration by part"
ENGINE_STEPS_MEANING = (
    "The steps of the inference engine in the whole recording. GPU work belongs to the step that launched it. The "
    "iteration of a step is from the end of the GPU work before it to the end of its own."
)

ALL_STEPS_TIME, SHARES_OF_PHASE = "the time of all steps", "Other percentages are of the phase's time."


def engine_figure(steps: int) -> str:
    """Describe the picture of an engine's steps."""
    return f"Iterations of {counted(steps, 'step')} by part, in ms"


def steps_per_bar(count: int) -> str:
    """Say that bars are means."""
    return f"Each bar is the mean of {count:,} consecutive steps."


PATH_MEANING = "The chain of work that determines the length of the window. Its parts add up to the window exactly."


def job_path_meaning(changes: int, rank: int | None = None, others_wait: str = "") -> str:
    """Explain the path of a job; ``rank`` is the only one on it, for which the others wait."""
    often = {0: "It stays on one rank.", 1: "It changes rank once."}.get(changes, f"It changes rank {changes:,} times.")
    if rank is not None:
        often = f"All of it is on rank {rank}."
        often += f" The other ranks wait {others_wait} for it." if others_wait else ""
    return (
        "The chain of work through all ranks that determines the length of the window. At a collective it continues on "
        f"the rank that arrives last, so it contains no waiting for other ranks. {often}"
    )


def ranks_meaning(window: Window, length_ns: int, *, same_window: bool) -> str:
    """Explain the table of ranks."""
    name = window_name(window)
    if same_window:
        return f"Every rank is analyzed over {name} of the job ({brief_duration(length_ns)})."
    return f"Every rank is analyzed over its own {name}." if window.step is not None else "One row per rank."


TIME_BY_CLASS = "Time on the critical path by class"
LARGEST_ITEMS = "Largest items on the critical path"
CRITICAL_PATHS_OF_RANKS = "Critical path of each rank"
TIME_BY_RANK = "Time on the critical path by rank"
TIME_BY_HOST = "Time on the critical path by host"
WAIT_CAUSES = "Causes of waiting (sums over the ranks that waited)"


def ranks_left_out(count: int) -> str:
    """Say how many ranks a table leaves out.

    >>> ranks_left_out(1_200)
    '1,200 further ranks, with less of the path, are not listed.'
    """
    return _left_out("rank", count)


def hosts_left_out(count: int) -> str:
    """Say how many hosts a table leaves out."""
    return _left_out("host", count)


def _left_out(noun: str, count: int) -> str:
    return f"{counted(count, f'further {noun}')}, with less of the path, {'is' if count == 1 else 'are'} not listed."


NO_RECORD = "(nothing recorded)"


def of_rank(title: str, rank: int | None) -> str:
    """Name a table or section that is about one rank of several."""
    return title if rank is None else f"{title}, rank {rank}"


def timeline_meaning(*, several: bool) -> str:
    """Explain the timeline."""
    other = " For another rank, run hta-graph timeline INPUT --rank N -o FILE.html." if several else ""
    return f"Names in the tables link to their place here.{other}"


NO_GPU = (
    "No GPU activity was recorded. To analyze the GPU, record with ProfilerActivity.CUDA and profile steps that launch "
    "kernels."
)
ITERATION_MEANING = "Iteration: from the end of the previous step's work to the end of this step's work."
LATENCY_MEANING = "Latency: from the start of the step to the end of its last work."
ALL_STEPS = "Length of each step"
OTHER_STEP = "for another, run hta-graph report INPUT --step N"


def on_page(text: str, terminal_remedy: str) -> str:
    """Word a sentence about the window for a page, where options need their command.

    >>> on_page("No steps. Use --annotation x for one of 3.", "")
    'No steps. Run hta-graph report INPUT --annotation x for one of 3.'
    """
    said = text.replace(terminal_remedy, OTHER_STEP) if terminal_remedy else text
    return said.replace(" Use --", " Run hta-graph report INPUT --")


def mostly_unexplained(steps: Sequence[str]) -> str:
    """Explain bars that are largely red."""
    many, verb = ("Steps", "have") if len(steps) > 1 else ("Step", "has")
    return (
        f"{many} {enumerated(steps)} {verb} much unexplained time (red): the trace records no cause for it, often "
        "because the work was enqueued before the recording started."
    )


def steps_left_out(count: int) -> str:
    """Say how many steps the table does not list."""
    return f"{counted(count, 'typical step')} not listed; to list all, run hta-graph critical-path --per-step."


UNEXPLAINED_MEANING = "Time without a recorded cause, and what was repaired or dropped while reading."
LONGEST_UNEXPLAINED = "Longest unexplained intervals"
DIAGNOSTICS = "Repaired, dropped or unresolved"
NONE_UNEXPLAINED = "Unexplained: 0 ms."
NOTHING_OPEN, WINDOW_END = "(no open call)", "the end of the window"
EXPORT_MEANING = "The trace with the critical path on top opens in ui.perfetto.dev."
EXPORT_COMMAND = "hta-graph critical-path TRACE --overlay overlay.json"


def detail_ranks(count: int, reasons: Sequence[tuple[int, str]]) -> str:
    """Say which ranks of a large job are shown in detail, and why."""
    shown = "; ".join(f"rank {rank}, {reason}" for rank, reason in reasons)
    return f"Shown in detail, of {count:,} ranks: {shown}. For another rank, run hta-graph report INPUT --rank N."


def about_rank(rank: int, text: str) -> str:
    """Begin a conclusion with the rank that it is about.

    >>> about_rank(1, "The GPU computes 68% of the time."), about_rank(1, "11% of communication is exposed.")
    ('Rank 1: the GPU computes 68% of the time.', 'Rank 1: 11% of communication is exposed.')
    """
    return f"Rank {rank}: {text.replace('The ', 'the ', 1) if text.startswith('The ') else text}"


def about_all_ranks(text: str) -> str:
    """Begin a conclusion about all ranks."""
    return f"All ranks: {text.replace('The ', 'the ', 1) if text.startswith('The ') else text}"


def bases(share_of: Mapping[str, str]) -> str:
    """Say of what the percentages in columns are, by heading.

    >>> bases({"time %": "all GPU time"}), bases({"a %": "the window", "b %": "the window"})
    ('time %: of all GPU time', 'percentages: of the window')
    """
    if len(share_of) > 1 and len(set(share_of.values())) == 1:
        return f"percentages: of {next(iter(share_of.values()))}"
    return "; ".join(f"{heading}: of {what}" for heading, what in share_of.items())


def rows_left_out(shown: int, total: int) -> str:
    """Say that a table was cut to keep the page small."""
    return f"The first {shown:,} of {total:,} rows; the page stays below 1 MB."


def stage(title: str) -> str:
    """Name the section that is being made, on the line of progress."""
    return f"writing the report: {title}"


def run_name(name: str, ranks: int) -> str:
    """Name a run: a file, or a folder with several ranks."""
    return quoted(name) if ranks == 1 else f"{quoted(name)}, {ranks:,} ranks"


# -- savings -----------------------------------------------------------------------------------------------------------

NOTHING_TO_SAVE = "nothing on the path can take less time"
CURVE_AXIS = "time it takes, as a share of the recorded time"
CURVES = "Predicted length of the window as one item gets faster"
OPPORTUNITIES = "Estimated savings; they overlap, do not add them"
ASSUMPTIONS = (
    "The dependency graph is replayed with less time for one item. All other work keeps its duration, and waits follow "
    "from the dependencies. An operator or module includes everything it launches. Work that runs concurrently is "
    "assumed not to slow down."
)
NO_CURVES = "Curves need the complete graphs of all ranks; if memory allows, add --summaries never."


def largest_saving(name: str, half: str, removed: str) -> str:
    """Name the largest saving that one change can bring."""
    return f"Largest saving: {name} at 2x speed saves {half}; removing it saves {removed}"


def work_of(rank: str) -> str:
    """Name all work of a rank as something that can be faster."""
    return f"the work of {rank}"


def turning_point(share_of_time: str, following: str, *, saves_less: bool) -> str:
    """Say from where on more speed saves less."""
    effect = "further speedup saves less" if saves_less else "further speedup saves nothing"
    after = f"; {next_bottleneck(following)}" if following else ""
    return f"Below {share_of_time} of its time, {effect}{after}."


def next_bottleneck(following: str) -> str:
    """Name what limits the window next."""
    return f"next bottleneck: {following}"


def corner(share_of_time: str, length: str, saved: str, following: str) -> str:
    """Describe a corner of a curve."""
    comes = f"; {next_bottleneck(following)}" if following else ""
    return f"at {share_of_time} of its time: {length}, saves {saved}{comes}"


def line_label(kind: str, half: str, removed: str) -> str:
    """Describe a curve next to its end."""
    return f"{kind}: 2x speed −{half}, removed −{removed}"


def saves_the_same(others: str) -> str:
    """Name what saves the same as a curve's item."""
    return f"; {others} would save the same"


def fixed_part(fixed: str, inferred: str) -> str:
    """Say what no change moves, and what the prediction relies on."""
    said = (
        f"{fixed} of the path is fixed in every scenario: time without a recorded cause, and communication whose "
        "partners are not in the trace, which may include waiting for them."
        if fixed
        else "No part of the path is fixed."
    )
    return f"{said} {inferred} of its time depends on inferred edges." if inferred else said


def near_on_one_rank(rank: int, within: str) -> str:
    """Say that one rank has all near-critical work."""
    return f"Near-critical work (slack below {within} of the window) is on rank {rank} only."


def near_by_rank(within: str) -> str:
    """Name the table of near-critical work."""
    return f"Near-critical work by rank (slack below {within} of the window)"


def near_paths(within: str) -> str:
    """Name the table of paths that are nearly as long."""
    return f"Longest near-critical paths per rank and class (slack below {within} of the window)"


# -- waiting in a job of many ranks ------------------------------------------------------------------------------------

WAITING_MEANING = (
    "Caused: each wait is attributed to the work that took the late rank longer since the previous collective, even if "
    "other ranks passed the delay on. Wait caused: all waiting in a collective counts for the rank that arrives last."
)
WAITING_BY_RANK = "Waiting caused by each rank, and its own waiting"
HOSTS, GROUP_KINDS, GROUPS = "Hosts", "Process groups by purpose", "Process groups"


def worst_ranks(listed: int, total: int) -> str:
    """Name the table of the ranks that cause most waiting."""
    return f"{WAITING_BY_RANK}: the top {listed:,} of {total:,} ranks, median and 95th percentile"


def waiting_figure(ranks: int, ranks_per_row: int) -> str:
    """Name the picture of waiting.

    >>> waiting_figure(64, 1), waiting_figure(1024, 2)
    ('When each of 64 ranks waits for others', 'When each of 1,024 ranks waits for others, 2 ranks per row')
    """
    rows = f", {ranks_per_row} ranks per row" if ranks_per_row > 1 else ""
    return f"When each of {ranks:,} ranks waits for others{rows}"


def waits_of_rank(name: str, mean: str, most_from: str) -> str:
    """Describe a row of the picture."""
    return f"{name}: waits {mean} of the time" + (f", most from {most_from}" if most_from else "")
