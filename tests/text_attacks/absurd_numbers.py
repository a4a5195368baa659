"""Absurd numbers in every option that takes one, and in every number of a trace."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.support.cli_parsers import options_of, parsers_by_command
from tests.support.output_commands import names_a_file
from tests.text_attacks.command_lines import Asked, Material, ask_in_process
from tests.text_attacks.hostile_texts import lines_of, with_labels, written_material

NUMBERS = (
    "1e308", "-1e308", "nan", "inf", "-inf", "Infinity", "-1", "0", "-0", "1e-308", "1e400", "1e5", "0.5", "1.5", "+1",
    "9" * 30, "9" * 5_000, "-" + "9" * 30, "2147483648", "9223372036854775807", "9223372036854775808", "0x10", "1_000",
    "١٢", "²", "½", "", " ", " 1 ", "1\n", "5%", "-5%", "1e308%", "nan%", "101%", "999999%", "4G", "-4G", "1e9T", "0G",
    "999999999999T", "1:2", "2:1", "0:1e9", "-9999:9999", "1:99999999999999999999", "-99999999999999999999:1",
    "0:9223372036854775807", "9223372036854775807:9223372036854775808", "nan:nan", ":", "1:", ":1", "1:2:3",
)  # fmt: skip
SAMPLE = ("1e308", "nan", "-1", "9" * 30)
"""Those that every option of every command sees."""
IN_TEXTS = {
    "--window": ("{}",),
    "--instance": ("{}",),
    "--scale": ("kernel:gemm={}", "class:cpu_bound={}"),
    "--scenario": ("communication={}", "rank_like_others={}"),
    "--gpu": ("{}",),
    "--cpu": ("{}",),
    "--remove": ("rank:{}",),
    "--curve": ("rank:{}",),
}
"""Options whose text holds a number."""
BESIDE = {"--instance": ["--annotation", "forward"], "--around": [], "--between": [], "--depth": ["--around", "3"]}
NAMES = {"device", "stream", "Device Id", "Device Type"}
"""Arguments of events that name a place; they are compared and shown, and nothing is counted with them."""
NONSENSE = re.compile(r"\b(nan|inf|-?\d(\.\d+)?e\+?\d{2,})\b|\d{1,3}(,\d{3}){8,}", re.IGNORECASE)
ODD_VALUES: dict[str, Any] = {
    "1e308": 1e308, "-1e308": -1e308, "1e-308": 1e-308, "text 1e308": "1e308", "text nan": "NaN", "-1": -1, "0": 0,
    "2^31": 2**31, "2^53+1": 2**53 + 1, "2^63-1": 2**63 - 1, "2^63": 2**63, "2^64-1": 2**64 - 1, "-2^63": -(2**63),
    "10^30": 10**30, "0.1": 0.1, "true": True, "null": None, "[]": [], "{}": {}, "[[1]]": [[1]], "text": "x",
    "nan": float("nan"), "inf": float("inf"),
}  # fmt: skip


READERS = {
    "bandwidth": "memory-bandwidth", "Total": "memory-timeline", "Bytes": "memory-timeline", "bytes": "counters",
    "Device": "memory-timeline", "Addr": "memory-timeline", "inst": "hardware-counters", "active": "hardware-counters",
    "Collective": "collectives", "nelems": "collectives", "Ranks": "collectives", "ts": "critical-path",
    "dur": "critical-path", "distributedInfo": "info", "device": "info", "stream": "critical-path",
    "correlation": "launch-stats",
}  # fmt: skip


def numeric_options(words: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    """Yield the options of a command that take numbers, the form of their values, and how many these are."""
    for action in options_of(words):
        option = action.option_strings[-1]
        is_text = action.type in (None, str) or getattr(action.type, "__name__", "") == "read_word"
        if not (is_text or action.choices or names_a_file(action)):
            yield option, "{}", action.nargs if isinstance(action.nargs, int) else 1
        yield from ((option, form, 1) for form in IN_TEXTS.get(option, ()))


def attack_options(
    material: Material,
    numbers: tuple[str, ...] = NUMBERS,
    commands: Iterable[tuple[str, ...]] = tuple(parsers_by_command()),
) -> Iterator[tuple[Asked, list[str]]]:
    """Give each number to each option that takes one; yield what came of each with what is wrong."""
    seen: set[str] = set()
    for words in commands:
        for option, form, count in numeric_options(words):
            needed = material.needed(*words)
            if words == ("render",) and option in ("--around", "--between", "--depth"):
                needed = [*needed[1:], *BESIDE[option]]
            line = [*words, *material.inputs(*words), *needed, *BESIDE.get(option, ())]
            for number in SAMPLE if option in seen else numbers:
                text = form.format(number)
                asked = ask_in_process([*line, *([f"{option}={text}"] if count == 1 else [option, *[text] * count])])
                yield asked, [*asked.faults, *_faults_of_number(asked, option)]
        # What many commands share is read by one reader: further ones see a few numbers.
        seen |= {option for option, _, _ in numeric_options(words)}


def _faults_of_number(asked: Asked, option: str) -> Iterator[str]:
    if asked.status == 2 and option not in asked.err and not re.search("rank|window|factor|duration ratio", asked.err):
        yield f"the refusal does not name {option}: {asked.err.strip()[:120]}"
    if asked.status == 2 and (asked.err.count("\n") > 1 or len(asked.err) > 600):
        yield f"the refusal has {asked.err.count(chr(10))} lines, {len(asked.err)} characters"
    # What a person gives is told back; what is found must be sane.
    said = asked.out.replace(asked.words[-1].rpartition("=")[2] or "\0", "")
    if asked.status == 0 and (found := NONSENSE.search(said)):
        yield f"nonsense: {found[0][:60]}"


def places_of_numbers(document: Any) -> Iterator[tuple[Any, Any, str]]:
    """Yield where numbers stand in a document: the object, its key, and the keys that lead there."""
    objects = [(document, "")]
    while objects:
        found, path = objects.pop()
        for key, value in found.items() if isinstance(found, dict) else enumerate(found):
            here = f"{path}.{key}" if isinstance(key, str) else path
            if isinstance(value, dict | list):
                objects.append((value, here))
            elif isinstance(value, int | float) and not isinstance(value, bool):
                yield found, key, here


def attack_values(folder: Path, names: tuple[str, ...] = tuple(ODD_VALUES)) -> Iterator[tuple[Asked, list[str]]]:
    """Put each odd value in the place of each kind of number in one rank's trace, and ask every command."""
    material = written_material(folder, str)
    sound = with_labels(0)
    places = sorted({path for _, _, path in places_of_numbers(sound)})
    commands = [
        words for words in parsers_by_command() if words == ("chakra", "convert") or words[0] not in ("demo", "chakra")
    ]
    for number, name in enumerate(names):
        for place, path in enumerate(places):
            document = copy.deepcopy(sound)
            for found, key, here in places_of_numbers(document):
                if here == path:
                    found[key] = ODD_VALUES[name]
            material.traces[0].write_text(json.dumps(document))
            # One command sees it, another from place to place, and the one that reads it.
            some = {commands[(place + 5 * number) % len(commands)]}
            for words in sorted(some | {(reader,) for key, reader in READERS.items() if key in path}):
                asked = ask_in_process(next(lines_of(material, words)))
                # What the file says of itself, and what it calls its devices and streams, is told as it is.
                is_name = "args" not in path or path.rpartition(".")[2] in NAMES
                told = asked.out.replace(str(ODD_VALUES[name]), "") if is_name else asked.out
                nonsense = NONSENSE.search(told) if asked.status == 0 else None
                more = [f"{path} = {name}: nonsense {nonsense[0][:60]}"] if nonsense else []
                yield asked, [*(f"{path} = {name}: {fault}" for fault in asked.faults), *more]
