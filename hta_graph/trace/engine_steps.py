"""Steps of inference engines: the annotations that name them, and what their names say of phase, batch and tokens.

Engines write no ``ProfilerStep``. Sources: the code that builds these names in vLLM (``gpu_worker.py``), SGLang
(``profile_utils.py``), ATOM (``run_labels.py``), xDiT and TensorRT-LLM (``py_executor.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Protocol

import numpy as np

from hta_graph.base.arrays import distinct, is_among
from hta_graph.base.errors import PatternError
from hta_graph.base.safe_regex import Pattern, compile_pattern, names_matching, shortened_repr
from hta_graph.model import CPU_KINDS, GPU_KINDS, Codes, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.profiler_names import BLOCKING_CALL, GRAPH_LAUNCH_CALL, STEP_NAME

PREFILL, DECODE, MIXED, VERIFY, DRAFT, IMAGE, IDLE = "prefill", "decode", "mixed", "verify", "draft", "image", "idle"
GRAPH, EAGER, UNKNOWN = "graph", "eager", "unknown"
PHASES = (PREFILL, DECODE, MIXED, VERIFY, DRAFT, IMAGE, IDLE, GRAPH, EAGER, UNKNOWN)
"""What steps do. The last three are of steps whose names do not say: with a graph launch, without, without GPU work."""


@dataclass(frozen=True)
class EngineStep:
    """What the annotation of a step says; None where it does not.

    ``requests`` is the batch (of xDiT: images), ``tokens`` what the step computes, ``kv_tokens`` the summed lengths of
    the key-value caches, ``padded_requests`` the batch size of the graph that is replayed. ``is_inside``: a profiler
    step is around it, and is the step.
    """

    engine: str
    phase: str | None = None
    requests: int | None = None
    tokens: int | None = None
    prefill_requests: int | None = None
    prefill_tokens: int | None = None
    decode_requests: int | None = None
    decode_tokens: int | None = None
    kv_tokens: int | None = None
    padded_requests: int | None = None
    image_size: str | None = None
    name: str = ""
    is_inside: bool = False

    def merged(self, inner: EngineStep) -> EngineStep:
        """Return what two nested annotations of one step say; where both say something, the outer one is right."""
        missing = [f.name for f in fields(self) if getattr(self, f.name) is None]
        # AMD's changes to SGLang write the names of vLLM around its own.
        return replace(self, engine=inner.engine, **{name: getattr(inner, name) for name in missing})


Numbers = Mapping[str, str]
"""What a pattern finds, by the names of its groups, and the ``key=number`` parts of a name, by their keys."""


class StepPattern(NamedTuple):
    """How an engine calls its steps: a regular expression for the whole name, and how phase and sizes follow from it.

    ``kind`` is where the name stands; ``needs`` is what another name of the trace must match, for a name that others
    use too.
    """

    engine: str
    pattern: Pattern
    phase: str
    batch: str
    tokens: str
    since: str
    read: Callable[[Numbers], EngineStep]
    kind: EventKind = EventKind.ANNOTATION
    needs: re.Pattern[str] | None = None


MOST_DIGITS = 12
"""Longer numbers count nothing: sums of those in all names of a trace stay below 2^63."""


def _whole(found: Numbers, *names: str) -> int | None:
    """Return the first number there is; None for an absurd one."""
    text = next((found[name] for name in names if found.get(name) is not None), None)
    return None if text is None or len(text) > MOST_DIGITS else int(text)


def _sum(*numbers: int | None) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _phase_of_counts(prefill: int | None, decode: int | None) -> str:
    return MIXED if prefill and decode else PREFILL if prefill else DECODE if decode else IDLE


def _by_counts(engine: str) -> Callable[[Numbers], EngineStep]:
    """Read a name that counts prefill and decode requests, and perhaps the tokens of each."""

    def read(found: Numbers) -> EngineStep:
        prefill, decode = _whole(found, "prefill"), _whole(found, "decode")
        prefill_tokens, decode_tokens = _whole(found, "prefill_tokens"), _whole(found, "decode_tokens")
        tokens = None if prefill and prefill_tokens is None else _sum(prefill_tokens, decode_tokens)
        return EngineStep(
            engine, _phase_of_counts(prefill, decode), _sum(prefill, decode), tokens, prefill, prefill_tokens, decode,
            decode_tokens, _sum(_whole(found, "prefill_kv"), _whole(found, "decode_kv")),
        )  # fmt: skip

    return read


def _vllm_before(found: Numbers) -> EngineStep:
    return EngineStep("vLLM", requests=_sum(_whole(found, "new"), _whole(found, "cached")))


def _vllm_frame(found: Numbers) -> EngineStep:
    del found
    return EngineStep("vLLM")


SGLANG_MODES = {
    "EXTEND": PREFILL,
    "SPLIT_PREFILL": PREFILL,
    "DLLM_EXTEND": PREFILL,
    "DECODE": DECODE,
    "MIXED": MIXED,
    "VERIFY": VERIFY,
    "TARGET_VERIFY": VERIFY,
    "DRAFT": DRAFT,
    "DRAFT_EXTEND": DRAFT,
    "DRAFT_EXTEND_V2": DRAFT,
    "IDLE": IDLE,
    "PREBUILT": IDLE,
}
"""Forward modes of SGLang; a prebuilt batch comes with its caches and runs no model."""


def _sglang(found: Numbers) -> EngineStep:
    phase, requests = SGLANG_MODES.get(found["mode"]), _whole(found, "bs")
    prefill = _whole(found, "c") if phase == MIXED else requests if phase == PREFILL else None
    decode = _whole(found, "g") if phase == MIXED else requests if phase == DECODE else None
    prefill_tokens = _whole(found, "toks", "c_sq") if phase in (PREFILL, MIXED) else None
    # Without a sum of query tokens each request decodes one.
    decode_tokens = _whole(found, "g_sq", *["bs"] * (phase == DECODE)) if phase in (DECODE, MIXED) else None
    of_group = _whole(found, "c_sq", "g_sq", "toks")
    tokens = _sum(prefill_tokens, decode_tokens) if phase in (PREFILL, DECODE, MIXED) else of_group
    kv_tokens = _sum(_whole(found, "c_sk"), _whole(found, "g_sk"))
    return EngineStep("SGLang", phase, requests, tokens, prefill, prefill_tokens, decode, decode_tokens, kv_tokens)


def _atom(found: Numbers) -> EngineStep:
    requests, tokens = _whole(found, "bs"), _whole(found, "tok")
    is_prefill = found["mode"] == PREFILL
    prefill = requests if is_prefill else _whole(found, "p")
    decode = None if is_prefill else _whole(found, "d", "bs")
    phase = PREFILL if is_prefill else MIXED if prefill else DECODE
    return EngineStep(
        "ATOM", phase, requests, tokens, prefill, tokens if phase == PREFILL else None, decode,
        tokens if phase == DECODE else None, _whole(found, "sk"), _whole(found, "padded"),
    )  # fmt: skip


def _xdit(found: Numbers) -> EngineStep:
    size = f"{found['height']}×{found['width']}" if found.get("height") else None
    return EngineStep("xDiT", IMAGE, _whole(found, "bs"), image_size=size)


_SUMS = r"\(sq(?P<{0}_tokens>\d+)sk(?P<{0}_kv>\d+)sqsq\d+sqsk\d+\)"
STEP_PATTERNS: tuple[StepPattern, ...] = (
    StepPattern(
        "vLLM",
        re.compile(
            r"execute_context_(?P<prefill>\d+)\((?P<prefill_tokens>\d+)\)"
            r"_generation_(?P<decode>\d+)\((?P<decode_tokens>\d+)\)"
        ),
        "by counts: context is prefill, generation decode",
        "both requests",
        "both tokens",
        "August 2025",
        _by_counts("vLLM"),
    ),
    StepPattern(
        "vLLM",
        re.compile(
            rf"execute_\d+_context_(?P<prefill>\d+){_SUMS.format('prefill')}"
            rf"_generation_(?P<decode>\d+){_SUMS.format('decode')}"
        ),
        "by counts: context is prefill, generation decode",
        "both requests",
        "both sq; sk is the key-value cache",
        "0.26 with detailed annotations; SGLang with AMD's changes",
        _by_counts("vLLM"),
    ),
    StepPattern(
        "vLLM",
        re.compile(r"execute_new_(?P<new>\d+)_cached_(?P<cached>\d+)"),
        "not said",
        "new and running requests",
        "not said",
        "until August 2025",
        _vllm_before,
    ),
    StepPattern(
        "SGLang",
        re.compile(r"step\[(?P<mode>[A-Z_0-9]+) bs=(?P<bs>\d+)(?P<rest>.*)\]"),
        "by mode: EXTEND is prefill, DECODE, MIXED, VERIFY, DRAFT, IDLE",
        "bs",
        "toks, else c_sq and g_sq, else one per decoding request",
        "2026",
        _sglang,
    ),
    StepPattern(
        "ATOM",
        re.compile(r"(?:eager_)?(?P<mode>prefill|decode)\[bs=(?P<bs>\d+)(?:/(?P<padded>\d+))?(?P<rest>.*)\]"),
        "by name; a decode with prefill requests (p) is mixed",
        "bs, before the padded size",
        "tok",
        "2026",
        _atom,
    ),
    StepPattern(
        "xDiT",
        re.compile(r"execute_diffusion_(?P<bs>\d+)_(?P<height>\d+)x(?P<width>\d+)"),
        "image",
        "images",
        "none",
        "2026, with AMD's changes",
        _xdit,
    ),
    StepPattern(
        "xDiT",
        re.compile(r"model_inference"),
        "image",
        "not said",
        "none",
        "2025; only in traces that name xfuser or xdit",
        _xdit,
        needs=re.compile(r"(?i)xfuser|xdit"),
    ),
    StepPattern(
        "TensorRT-LLM",
        re.compile(
            r"\[Executor\] _forward_step \d+: (?P<prefill>\d+) ctx reqs"
            r"(?:, (?P<prefill_tokens>\d+) ctx tokens)?, (?P<decode>\d+) gen reqs.*"
        ),
        "by counts: ctx is prefill, gen decode",
        "both requests",
        "ctx tokens",
        "2025; NVTX, in reports of Nsight Systems",
        _by_counts("TensorRT-LLM"),
    ),
    StepPattern(
        "vLLM",
        re.compile(r"^.*\bgpu_worker\.py\(\d+\): execute_model"),
        "not said",
        "not said",
        "not said",
        "Python frame, where no annotation is recorded",
        _vllm_frame,
        EventKind.PYTHON_FUNCTION,
    ),
)
"""In the order in which they are tried; of nested ones the outermost is the step. Parts of steps are not listed."""

DUMMY_STEP = re.compile(r"dummy_(?:eager_)?(?:prefill|decode)\[.*")
"""What ATOM runs to keep ranks in step, or to warm up: no step, and its work is not that of the step before."""

KEY_AND_NUMBER = re.compile(r"\b(\w+)=(\d+)")


def own_pattern(expression: str) -> StepPattern:
    """Return the pattern that a user gives; its groups ``phase``, ``batch`` and ``tokens`` are read where it has them.

    >>> own_pattern(r"turn (?P<batch>[0-9]+)").read({"batch": "8"}).requests
    8
    """

    def read(found: Numbers) -> EngineStep:
        """Read the groups; an empty one says nothing."""
        found = {group: text for group, text in found.items() if text}
        for group in ("batch", "tokens"):
            if not re.fullmatch("[0-9]*", found.get(group, "")):
                what = (
                    f"group {group} of {shortened_repr(expression)} is no whole number: {shortened_repr(found[group])}"
                )
                raise PatternError(what, f"write (?P<{group}>[0-9]+)")
        phase = found.get("phase", "").lower() or None
        return EngineStep("own pattern", phase, _whole(found, "batch"), _whole(found, "tokens"))

    return StepPattern(
        "own pattern", compile_pattern(expression), "group phase", "group batch", "group tokens", "", read
    )


def read_step_name(
    name: str, patterns: Sequence[StepPattern] = STEP_PATTERNS, kind: EventKind = EventKind.ANNOTATION
) -> EngineStep | None:
    """Read what the name of an annotation says of an engine's step; None if it is not one.

    >>> found = read_step_name("execute_context_2(6144)_generation_3(3)")
    >>> found.phase, found.requests, found.tokens
    ('mixed', 5, 6147)
    >>> read_step_name("dummy_decode[bs=1/8 tok=1 d=1]"), read_step_name("gpu_model_runner: forward")
    (None, None)
    """
    for known in patterns:
        found = known.pattern.fullmatch(name) if known.kind == kind else None
        if found is not None:
            groups = {key: text for key, text in found.groupdict().items() if text is not None}
            parts = dict(KEY_AND_NUMBER.findall(groups.pop("rest", "")))
            return replace(known.read({**parts, **groups}), name=name)
    return None


class EventColumns(Protocol):
    """What of a trace's events steps are found in."""

    @property
    def kind(self) -> Codes:
        """The kind of each event."""

    @property
    def name(self) -> Ids:
        """A code into the names."""

    @property
    def start(self) -> Ints:
        """When each starts (ns)."""

    @property
    def end(self) -> Ints:
        """When each ends (ns)."""

    @property
    def correlation(self) -> Ints:
        """The number that a call and what it launched have in common."""


class FoundStep(NamedTuple):
    """An engine's step: its row, its times (ns), until when launches are its own, and what its name says."""

    event: int
    start_ns: int
    end_ns: int
    until_ns: int
    step: EngineStep
    launches_work: bool


def find_engine_steps(events: EventColumns, names: Sequence[str], expressions: Sequence[str] = ()) -> list[FoundStep]:
    """Find the steps of an engine in a trace, in order of time; of nested ones the outermost, which says what all say.

    What is launched from the start of a step to that of the next one is the step's work. A name that says no phase
    leaves what is seen: whether graphs are launched. Where nothing names a step, profiler steps neither, each launch of
    a graph may be one.

    Args:
        events: the trace's events.
        names: their names.
        expressions: further patterns, tried first.

    Raises:
        PatternError: an expression is not a regular one, or takes too long.
    """
    patterns = [*map(own_pattern, expressions), *STEP_PATTERNS]
    outermost: list[tuple[int, EngineStep | None]] = []
    for kind in (EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION):
        said = _steps_by_name(events, names, patterns, kind)
        if any(said.values()):
            outermost = _outermost(events, kind, said)
            break
    if not outermost:
        is_named = bool(expressions) or any(map(STEP_NAME.fullmatch, names))
        return [] if is_named else _steps_by_graph_launch(events, names)
    begins = events.start[[row for row, _ in outermost]]
    until = np.append(begins[1:], max(int(events.end.max()), int(begins[-1])) + 1)
    counts, graphs = (
        (np.searchsorted(times, until) - np.searchsorted(times, begins)).tolist()
        for times in _launch_times(events, names)
    )
    found = []
    for at, (row, step) in enumerate(outermost):
        if step is not None:
            phase = step.phase or (GRAPH if graphs[at] else EAGER if counts[at] else UNKNOWN)
            times = (int(events.start[row]), int(events.end[row]), int(until[at]))
            found.append(FoundStep(row, *times, replace(step, phase=phase), counts[at] > 0))
    return found


def _steps_by_name(
    events: EventColumns, names: Sequence[str], patterns: Sequence[StepPattern], kind: EventKind
) -> dict[int, EngineStep | None]:
    """Read the names of a kind of events: what those of steps say, None for what only ends the step before."""
    codes = distinct(events.name[events.kind == kind]).tolist()
    own = [known for known in patterns if known.kind == kind]
    listed = [names[code] for code in codes]
    usable = [one for one in own if one.needs is None or _is_witnessed(one, one.needs, listed, names)]
    may_be = names_matching([one.pattern for one in usable], listed, by="fullmatch")
    found: dict[int, EngineStep | None] = {}
    for code, name, matches in zip(codes, listed, may_be.tolist(), strict=False):
        if matches:
            found[code] = read_step_name(name, usable, kind)
        elif kind == EventKind.ANNOTATION and DUMMY_STEP.match(name):
            found[code] = None
    return found


def _is_witnessed(known: StepPattern, needs: re.Pattern[str], listed: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a name that others use too is there, and one that only its engine has."""
    return any(map(known.pattern.fullmatch, listed)) and any(map(needs.search, names))


def _outermost(
    events: EventColumns, kind: EventKind, said: Mapping[int, EngineStep | None]
) -> list[tuple[int, EngineStep | None]]:
    """Return the rows of the outermost annotations with what they and those in them say."""
    rows = np.flatnonzero((events.kind == kind) & np.isin(events.name, list(said)))
    rows = rows[np.lexsort([-events.end[rows], events.start[rows]])]
    found: list[tuple[int, EngineStep | None]] = []
    last_end = None
    for row, end, start in zip(rows.tolist(), events.end[rows].tolist(), events.start[rows].tolist(), strict=True):
        step = said[int(events.name[row])]
        if last_end is None or start >= last_end or end > last_end:
            found.append((row, step))
            last_end = end
        elif step is not None and found[-1][1] is not None:
            found[-1] = (found[-1][0], found[-1][1].merged(step))
    return found


def _launch_times(events: EventColumns, names: Sequence[str]) -> tuple[Ints, Ints]:
    """Return when (ns) calls began that launched GPU work, and calls that launched a graph, in order of time."""
    is_call = kind_mask(events.kind, CPU_KINDS)
    launched = events.correlation[kind_mask(events.kind, GPU_KINDS) & (events.correlation > 0)]
    launches = events.start[is_call & (events.correlation > 0) & np.isin(events.correlation, launched)]
    codes = distinct(events.name[events.kind == EventKind.RUNTIME]).tolist()
    of_graph = [code for code in codes if GRAPH_LAUNCH_CALL.match(names[code])]
    graphs = events.start[(events.kind == EventKind.RUNTIME) & np.isin(events.name, of_graph)]
    return np.sort(launches), np.sort(graphs)


BY_GRAPH_LAUNCH = "graph launch"
"""What stands for the engine of steps that nothing names."""
LEAST_GRAPH_SHARE = 0.8
"""Graph launches are steps where they run at least this share of the GPU's work (LightLLM's decode steps: 97%)."""
LEAST_AHEAD = 4
"""Of at least this many launches the second one may come without a wait after the first."""


def _steps_by_graph_launch(events: EventColumns, names: Sequence[str]) -> list[FoundStep]:
    """Take each launch of a graph as a step, where graphs run nearly all of the GPU's work and the host waits between.

    An engine reads the tokens of a step before it launches the next one: its thread waits for the GPU between any two
    launches, as it does not between the pieces of one step. Pieces between which it waits come in turn: A B A B. A step
    begins when that wait returns.
    """
    codes = distinct(events.name[events.kind == EventKind.RUNTIME]).tolist()
    called = [
        np.flatnonzero((events.kind == EventKind.RUNTIME) & np.isin(events.name, [c for c in codes if of(names[c])]))
        for of in (GRAPH_LAUNCH_CALL.match, BLOCKING_CALL.match)
    ]
    launches, waits = (rows[np.argsort(events.start[rows], kind="stable")] for rows in called)
    works = np.flatnonzero(kind_mask(events.kind, GPU_KINDS) & (events.correlation > 0))
    by_graph = is_among(events.correlation[works], events.correlation[launches])
    launches = launches[is_among(events.correlation[launches], events.correlation[works])]
    length = events.end - events.start
    if not len(launches) or length[works[by_graph]].sum() < LEAST_GRAPH_SHARE * length[works].sum():
        return []
    returned = np.sort(events.end[waits])
    last = np.searchsorted(returned, events.start[launches], side="right") - 1
    start, end = events.start[launches], events.end[launches]
    waited = np.append(returned, 0)[last]
    has_wait = (last >= 0) & (waited >= np.append(np.iinfo(np.int64).min, end[:-1]))
    # An engine that launches a step ahead waits for the first one after the second.
    without = int(np.count_nonzero(~has_wait[1:]))
    if without > (len(launches) >= LEAST_AHEAD and not has_wait[1]):
        return []
    if _take_turns(_graph_of_launches(events, launches, works)):
        return []
    begins = np.where(has_wait, waited, start)
    until = np.append(begins[1:], int(events.end.max()) + 1)
    step = EngineStep(BY_GRAPH_LAUNCH, GRAPH, name=BY_GRAPH_LAUNCH)
    return [
        FoundStep(row, begin, end, after, step, launches_work=True)
        for row, begin, end, after in zip(
            launches.tolist(), begins.tolist(), events.end[launches].tolist(), until.tolist(), strict=True
        )
    ]


def _graph_of_launches(events: EventColumns, launches: Ints, works: Ints) -> list[bytes]:
    """Return what identifies the graph of each launch: the names of what it ran, in any order."""
    order = works[np.argsort(events.correlation[works], kind="stable")]
    known = events.correlation[order]
    first, past = (np.searchsorted(known, events.correlation[launches], side=side) for side in ("left", "right"))
    return [
        np.sort(events.name[order[low:high]]).tobytes() for low, high in zip(first.tolist(), past.tolist(), strict=True)
    ]


def _take_turns(graphs: Sequence[bytes]) -> bool:
    """Return whether different graphs follow each other again and again in one order.

    >>> _take_turns([b"a", b"b", b"a", b"b"]), _take_turns([b"a", b"a", b"b", b"a"]), _take_turns([b"a", b"b"])
    (True, False, False)
    """
    return len(set(graphs)) > 1 and any(
        list(graphs[turn:]) == list(graphs[:-turn]) for turn in range(2, len(graphs) // 2 + 1)
    )
