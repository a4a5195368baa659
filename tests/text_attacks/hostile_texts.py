"""Texts that terminals, pages and pictures would obey: in traces, in file names, in options."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import hta_graph as hg
from tests.support.astra_log import Ran, log_text, write_workload
from tests.support.cli_parsers import options_of, parsers_by_command
from tests.support.host_builder import host_of
from tests.support.two_rank_job import one_rank
from tests.text_attacks.command_lines import Asked, Material, ask_in_process, stray_characters

TEXTS = {
    "escape": "\x1b[31mred\x1b[0m\x1b[2J",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;file:///etc/passwd\x1b\\x\x1b]8;;\x1b\\",
    "c1": "\x9b31m\x9d0;owned\x9c\x85",
    "bidi": "\u202egpj.\u2066x\u200f\u061c",
    "zero width": "\u200b\u2060\ufeff\u00ad",
    "joiners": "\u200d\u200c",
    "lines": "\nhta-graph: done\r\n\u2028\u2029\x0b\x0c",
    "delete": "\x7f\x08\x08\x08",
    "surrogate": "\ud83d",
    "byte": "\udcff",
    "markup": "[red]x[/red][link=file:///etc/passwd]x[/link]:smile:[/]",
    "html": "</td></script><script>alert(7)</script><img src=x onerror=alert(7)>&lt;",
    "dot": '"];evil[URL="javascript:alert(7)"];\\N\\L\\"',
    "html label": '<<table href="javascript:alert(7)"><tr><td>x</td></tr></table>>',
    "path": "../../../etc/passwd",
    "format": "%s%n{0}{self.__class__}${x}`id`$(id)",
    "nul": "a\x00b",
    "empty": "",
    "plain": "内核 naïve 👩\u200d💻 می\u200cخواهم",
}
ALL_AT_ONCE = " ".join(text for name, text in TEXTS.items() if name not in ("surrogate", "byte"))
"""What traces hold: each character tells which text it comes from. Texts that a reader may refuse stand alone."""
WRITTEN = (
    "--json", "--csv", "--plot", "--overlay", "--dot", "--output", "--parquet", "--kineto", "--external-ids", "--nodes",
)  # fmt: skip
KEPT_NAMES = re.compile(r"ProfilerStep#\d+|\[memory\]|cuda\w+|Memcpy .*")
NO_FILE_NAME = re.compile("[/\x00\ud800-\udbff]")

Change = Callable[[str], str]


def in_names(document: Any, change: Change) -> None:
    """Change the names of events that nothing recognises."""
    for row in document["traceEvents"]:
        if not KEPT_NAMES.fullmatch(row["name"]):
            row["name"] = change(row["name"])


def in_values(document: Any, change: Change) -> None:
    """Change every text of a document but events' phases and categories, and give each object one more key."""
    objects = [document]
    while objects:
        found = objects.pop()
        pairs = list(found.items() if isinstance(found, dict) else enumerate(found))
        for key, value in pairs:
            if isinstance(value, str) and key not in ("ph", "cat", "s"):
                found[key] = change(value)
            elif isinstance(value, dict | list):
                objects.append(value)
        if isinstance(found, dict):
            found[change("key")] = change("value")


WHERE: dict[str, Callable[[Any, Change], None]] = {"names": in_names, "values": in_values}


def with_labels(rank: int) -> Any:
    """Return a rank's document with names of processes and threads, properties of devices and configured groups."""
    trace = one_rank(rank)
    for kind, name in (("process_name", "python"), ("process_labels", "GPU"), ("thread_name", "main")):
        trace.row(ph="M", name=kind, pid=100, tid=1, ts=0, args={"name": name, "labels": name})
    trace.header |= {
        "deviceProperties": [{"id": 0, "name": "A100", "computeMajor": 8}],
        "displayTimeUnit": "ms",
        "trace_name": "trace.json",
    }
    trace.header["distributedInfo"]["pg_config"] = [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}]
    return trace.document()


def written_material(folder: Path, change: Change, where: str = "names", name: str = "") -> Material:
    """Write a job in which texts are changed, in files of a name, and what commands want beside it."""
    place, out = folder / f"in{name}", folder / "written"
    place.mkdir()
    out.mkdir()
    traces = []
    for rank in range(2):
        document = with_labels(rank)
        WHERE[where](document, change)
        traces.append(place / f"rank{rank}{name}.json")
        traces[-1].write_text(json.dumps(document))
    host = host_of(hg.build_graph(hg.read_trace(one_rank(0).write(folder / "sound.json"))))
    for node in host.nodes:
        node["name"] = node["name"] if node["name"].startswith("[") else change(node["name"])
    ran = [[Ran(1, 0, 10, name=change("gemm")), Ran(2, 10, 30, name=change("add"))]] * 2
    log = place / f"log{name}"
    log.mkdir()
    text = log_text(ran).encode("utf-8", "surrogatepass")
    (log / "log.log").write_bytes(text)
    ran = [[Ran(one.id, one.start, one.end, one.name.encode("utf-8", "replace").decode()) for one in ran[0]]] * 2
    workload = write_workload(place / f"work{name}", ran)
    (workload / "comm_groups.json").write_text("{}")
    return Material(traces, host.write(place / f"host{name}.json"), workload, log, out)


def lines_of(material: Material, words: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the command lines of a command: as it is, as JSON, and as whatever file it writes."""
    plain = [*words, *material.inputs(*words), *material.needed(*words)]
    yield plain
    options = {option for action in options_of(words) for option in action.option_strings}
    for option, name in (("--json", "-"), ("--csv", "out.csv"), ("--plot", "out.html"), ("--overlay", "over.json")):
        if option in options and not (option == "--overlay" and words[0] == "kernel-sequences"):
            yield [*plain, option, name if name == "-" else str(material.out / name)]
    if "--dot" in options:
        yield [*plain, "--dot", str(material.out / "out.dot")]


def attack(folder: Path, text: str, where: str) -> Iterator[tuple[Asked, list[str]]]:
    """Ask every command about traces that hold a text; yield what came of each with what is wrong."""
    material = written_material(folder, lambda name: name + text, where)
    yield from _asked_everything(material, text)


def attack_by_files(folder: Path, text: str) -> Iterator[tuple[Asked, list[str]]]:
    """Ask every command about files of such names, sound ones and such as cannot be read."""
    name = NO_FILE_NAME.sub("", text)[:60]
    material = written_material(folder, str, name=name)
    yield from _asked_everything(material, text)
    missing = folder / f"none{name}"
    broken = folder / f"broken{name}.json"
    broken.write_text('{"traceEvents": [{"ph": "X", "na')
    for place in (missing, broken, missing / "none.json"):
        files = Material([place, place], place, place, place, material.out)
        for words in parsers_by_command():
            asked = ask_in_process([*words, *files.inputs(*words), *files.needed(*words)])
            yield asked, asked.faults


def attack_by_options(material: Material, text: str) -> Iterator[tuple[Asked, list[str]]]:
    """Give a text to every option of every command, and as a command."""
    for words in (*parsers_by_command(), (text,), ("chakra", text)):
        known = words in set(parsers_by_command())
        needed = [*material.inputs(*words), *material.needed(*words)] if known else []
        options = {action.option_strings[-1]: action.nargs for action in options_of(words)} if known else {}
        # What is written lands beside the other outputs, whatever it is called.
        target = str(material.out / NO_FILE_NAME.sub("", text)[:60])
        for option, count in options.items():
            given = target if option in WRITTEN else text
            asked = ask_in_process([*words, *needed, option, *[given] * (count if isinstance(count, int) else 1)])
            yield asked, asked.faults
        asked = ask_in_process([*words, *needed, f"--{text}", text])
        yield asked, asked.faults


def _asked_everything(material: Material, text: str) -> Iterator[tuple[Asked, list[str]]]:
    for words in parsers_by_command():
        for number, line in enumerate(lines_of(material, words)):
            asked = ask_in_process(line)
            yield asked, [*asked.faults, *_lost_text(asked, text)]
            if number == 0:
                coloured = ask_in_process(line, on_terminal=True)
                yield coloured, faults_on_terminal(coloured)
        yield Asked([*words, "(its files)"], 0, "", ""), _faults_of_files(material.out)


def faults_on_terminal(asked: Asked) -> list[str]:
    """Say what is wrong with an answer in colour: only plain changes of colour may be in it."""
    out, bar = re.sub(r"\x1b\[[0-9;]*m", "", asked.out), re.sub(r"\x1b\[(\?25[lh]|[0-9;]*[mKA])|\r", "", asked.err)
    found = Asked(asked.words, asked.status, out, bar).faults
    return found + [f"{name} is obeyed" for name in ("\x1b]8", "😄") if name in asked.out]


def _lost_text(asked: Asked, text: str) -> list[str]:
    """Say whether JSON is none, or another text than the trace's stands in it."""
    if "--json" not in asked.words or asked.status or "-" not in asked.words:
        return []
    try:
        json.loads(asked.out)
    except ValueError as error:
        return [f"no JSON: {error}"]
    return []


def _faults_of_files(out: Path) -> list[str]:
    """Look at what was written, and take it away."""
    found = []
    for path in sorted(out.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
            continue
        found += [f"{path.name}: {fault}" for fault in _faults_of_file(path)]
        path.unlink()
    return found


def _faults_of_file(path: Path) -> Iterator[str]:
    raw = path.read_bytes()
    if path.suffix == ".json":
        json.loads(raw)
    if path.suffix == ".svg":
        root = ElementTree.fromstring(raw)  # noqa: S314 - what was just written
        for element in root.iter():
            if element.tag.endswith("script") or any("javascript" in value for value in element.attrib.values()):
                yield f"{element.tag} {element.attrib}"
    if path.suffix == ".html":
        text = re.sub(r"<script>window.PlotlyConfig.*?plotly\.js v.*?</script>", "", raw.decode(), flags=re.DOTALL)
        if stray := set(stray_characters(text)) - set("\t\r"):
            yield f"page has {''.join(sorted(stray))!r}"
        if "<script>alert" in text or "<img src=x" in text or text.count("<script") != text.count("</script>"):
            yield "a script from the trace"
    if path.suffix == ".dot" and 'URL="javascript' in raw.decode().replace('\\"', ""):
        yield "a link from the trace"
