"""Names of events without what differs between runs of one program: numbers of steps, and those of compilers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from hashlib import sha256

from hta_graph.graph.event_names import NUMBER
from hta_graph.trace.profiler_names import STEP_NAME

STEPS = "ProfilerStep"
"""The one name of all steps."""
COMPILER_NUMBER = re.compile(r"(Torch-Compiled Region: )\d+/\d+|(## Call CompiledFxGraph )\w+(?= ##)")
"""The number of a compiled region, the hash of a compiled graph: both differ between runs of one program."""


LONGEST_NAME = 160
SOURCE_LINE = re.compile(r"(?<![^\s():])(?:[^\s():]*[/\\])?([^\s()/\\:]+\.pyx?)\(\d+\): ")
"""A frame of Python: the folder can name a person, and each edit of the file changes the line."""
FOLDER = re.compile(r"(?<![\w.])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\:;,()'\"<>|]+)+[/\\](?=[^\s/\\])")
OTHERS = "(others)"
"""The name of what is added up because each of it is little."""


def comparable_name(name: str) -> str:
    """Return what the name of an event is in every run.

    >>> comparable_name("ProfilerStep#12"), comparable_name("Torch-Compiled Region: 5/2")
    ('ProfilerStep', 'Torch-Compiled Region: #/#')
    """
    return STEPS if STEP_NAME.fullmatch(name) else without_compiler_numbers(name)


def without_compiler_numbers(name: str) -> str:
    """Leave out what the compiler numbers differently in each run.

    >>> without_compiler_numbers("Torch-Compiled Region: 5/2 / ## Call CompiledFxGraph fwdbx7 ##")
    'Torch-Compiled Region: #/# / ## Call CompiledFxGraph # ##'
    """
    return COMPILER_NUMBER.sub(lambda found: f"{found[1]}#/#" if found[1] else f"{found[2]}#", name)


def numbered_alike(names: Collection[str]) -> dict[str, str]:
    """Return of names that differ from others by numbers alone what they share, with ``#`` for each number.

    >>> numbered_alike(["PP:1F0", "PP:1F1", "layer 3"])
    {'PP:1F0': 'PP:#F#', 'PP:1F1': 'PP:#F#'}
    """
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        alike[NUMBER.sub("#", name)].append(name)
    return {name: shared for shared, own in alike.items() if len(own) > 1 for name in own}


def portable_name(name: str) -> str:
    """Return a name without what belongs to one machine or one edit of the source: folders and lines.

    Of a very long one the beginning is kept, and a number that distinguishes it from others.

    >>> portable_name("/home/jane/work/train.py(61): log_loss"), portable_name("read /data/jane/x.bin")
    ('train.py: log_loss', 'read x.bin')
    """
    found = FOLDER.sub("", SOURCE_LINE.sub(r"\1: ", name))
    if len(found) <= LONGEST_NAME:
        return found
    return f"{found[: LONGEST_NAME - 9]}…{sha256(found.encode(errors='replace')).hexdigest()[:8]}"
