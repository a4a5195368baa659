"""Labels, colors and phrases that the sections of a page share."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analyses.display.labels import SHORT
from analyses.display.sentence_format import counted, quoted
from analyses.source.window_facts import WindowFacts
from hta_graph.base.colours import BOUND_COLOUR, CAUSE_CLASS

SEE_COMMAND = re.compile(r" \(see [a-z-]+\)")
SAVINGS = "Savings"
TIME_BY_CLASS = "Time on the critical path by class"
LARGEST_ITEMS = "Largest items on the critical path"


def colour_of(key: str) -> str:
    """Return the color of a class or of a cause of idle time, by its key; empty for anything else.

    >>> colour_of("cpu_bound") == colour_of("host_operator"), colour_of("aten::mm")
    (True, '')
    """
    return BOUND_COLOUR.get(CAUSE_CLASS.get(key, key), "")


def label_of(key: str, labels: Mapping[str, str] = SHORT) -> str:
    """Return the label of a key, or the key itself.

    >>> label_of("cpu_bound"), label_of("aten::mm")
    ('CPU work', 'aten::mm')
    """
    return labels.get(key, SHORT.get(key, key))


def run_name(name: str, ranks: int) -> str:
    """Name a run: a file, or a folder with several ranks."""
    return quoted(name) if ranks == 1 else f"{quoted(name)}, {ranks:,} ranks"


def steps_left_out(count: int) -> str:
    """Say how many steps the table does not list."""
    return f"{counted(count, 'typical step')} not listed; to list all, run hta-graph critical-path --per-step."


def title_of_rank(title: str, rank: int | None) -> str:
    """Name a table or section that is about one rank of several."""
    return title if rank is None else f"{title}, rank {rank}"


def length_name(facts: WindowFacts) -> str:
    """Name the length of the page's window: the same words and the same window everywhere on the page."""
    if facts.window.step is None:
        return "window"
    if facts.window.form == "cpu":
        return "CPU time of the step"
    return "iteration" if facts.window.form == "gpu" or facts.is_job or not facts.has_gpu else "latency"


def without_commands(line: str) -> str:
    """Leave out hints to commands, which a page does not have.

    >>> without_commands("the GPU computes 68% of the time; 27% is idle time (see idle-time)")
    'the GPU computes 68% of the time; 27% is idle time'
    """
    return SEE_COMMAND.sub("", line)


def is_about_options(line: str) -> bool:
    """Return whether a line points to options of the command line, which a page does not have."""
    return "--json" in line or line.startswith("  ")


def sentence(text: str) -> str:
    """Return a finding as a sentence of its own: with a capital letter and a period."""
    return capitalized(text) if text.endswith((".", "!", "?")) else f"{capitalized(text)}."


def capitalized(text: str) -> str:
    """Return a sentence with a capital letter; a name at its start stays as recorded.

    >>> capitalized("step 2: bound by GPU compute"), capitalized("aten::mm takes 2 ms")
    ('Step 2: bound by GPU compute', 'aten::mm takes 2 ms')
    """
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text
