"""Whatever a trace, a file name or an option holds: nothing of it moves the cursor, and absurd numbers are refused."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from analyses.display.console import print_lines, text_of
from analyses.display.stderr import say
from analyses.display.text_layout import table
from hta_graph.base.errors import UsageError
from hta_graph.base.storage.atomic_write import write_file
from hta_graph.base.text.json_text import to_json
from hta_graph.base.text.sanitize import sanitize
from tests.support.cli_parsers import parsers_by_command
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.text_attacks.absurd_numbers import NUMBERS, attack_options, numeric_options
from tests.text_attacks.command_lines import Material, Screen, ask_in_process, stray_characters
from tests.text_attacks.hostile_texts import ALL_AT_ONCE, TEXTS, attack, faults_on_terminal, lines_of, written_material

ROOT = Path(__file__).parents[3]
COMMANDS = list(parsers_by_command())
SOME = [words if at % 9 == 0 else deep(words) for at, words in enumerate(COMMANDS)]


@pytest.fixture(autouse=True)
def _one_terminal_and_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Speak to one kind of terminal, for rich keeps how a style is written for the first one; write beside nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM", raising=False)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Write a job whose every text is hostile, in files of hostile names."""
    folder = tmp_path_factory.mktemp("hostile")
    return written_material(folder, lambda name: name + ALL_AT_ONCE, "names", name="\x1b[31m\u202e\x9b\n[red]")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return written_material(tmp_path_factory.mktemp("sound"), str)


def test_every_hidden_character_is_seen_and_every_other_one_stays() -> None:
    planes = (range(0x3100), range(0xD700, 0x11000), range(0xE0000, 0xE0200))
    every = [chr(code) for plane in planes for code in plane]
    shown = sanitize("\u0915".join(every))[::2]
    changed = {char for char, seen in zip(every, shown, strict=True) if char != seen}
    # Between letters of Hindi, joiners belong to words.
    assert changed == {char for char in every if stray_characters(char)} | {"\n"}
    assert {unicodedata.category(char) for char in changed} == {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "text", ["内核 naïve", "👩\u200d💻", "می\u200cخواهم", "e\u0301", "\ue0b0", "\U0001fae9", "a\u00a0b"]
)
def test_texts_of_all_languages_stay(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", ["a\u200db", "\u200d", "内\u200d\u200d核", "内\u200c", "\u200d内"])
def test_joiners_that_join_nothing_are_seen(text: str) -> None:
    assert "\ufffd" in sanitize(text)
    assert len(sanitize(text)) == len(text)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("words", SOME, ids=" ".join)
def test_no_command_lets_a_text_through(
    words: tuple[str, ...], hostile: Material, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    line = next(lines_of(hostile, words))
    assert ask_in_process(line).faults == []
    assert faults_on_terminal(ask_in_process(line, on_terminal=True)) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", SOME, ids=" ".join)
def test_no_error_lets_a_text_through(words: tuple[str, ...], sound: Material) -> None:
    missing = Path(f"none{TEXTS['escape']}{TEXTS['lines']}{TEXTS['byte']}")
    files = Material([missing] * 2, missing, missing, missing, sound.out)
    for line in ([*words, *files.inputs(*words), *files.needed(*words)], [*words, f"--{ALL_AT_ONCE}", "x"]):
        asked = ask_in_process(line)
        assert asked.faults == []
        assert asked.status or words == ("demo",)


@pytest.mark.parametrize("where", [deep("names"), deep("values")])
@pytest.mark.parametrize("text", ["surrogate", "html"])
def test_no_text_in_any_output_of_any_command(where: str, text: str, tmp_path: Path) -> None:
    assert [fault for _, faults in attack(tmp_path, TEXTS[text], where) for fault in faults] == []


def test_json_says_exactly_what_the_trace_says(hostile: Material) -> None:
    document = json.loads(ask_in_process(["critical-path", str(hostile.traces[0]), "--json", "-"]).out)
    names = {segment["name"] for segment in document["segments"]}
    assert f"aten::add{ALL_AT_ONCE}" in names


def test_a_terminal_gets_other_outputs_printable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal, shown in ((True, "a\ufffd[2J,\ufffd\n"), (False, "a\x1b[2J,\u202e\n")):
        screen = Screen(is_terminal=is_terminal)
        monkeypatch.setattr(sys, "stdout", screen)
        write_file("-", [b"a\x1b[2J,\xe2", b"\x80\xae\n"])
        assert screen.text() == shown


def test_a_document_is_the_same_with_what_is_hidden_escaped() -> None:
    document = {"内核": ["naïve", "\u202e\x9b\x7f", "👩\u200d💻", "\U000e0041"]}
    text = b"".join(to_json(document))
    assert json.loads(text) == document
    assert stray_characters(text.decode()) == ""
    assert "内核" in text.decode()


def test_lines_and_tables_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(["a\nb\x1b[31m"])
    say("c\r\nd\u2028")
    done = capsys.readouterr()
    assert (done.out, done.err) == ("a\ufffdb\ufffd[31m\n", "c\ufffd\ufffdd\ufffd\n")
    lines = ["title\x07", *table([["[red]x[/red]:smile:", "1\x9b"]], ["na\x1bme", "n"], left=[0])]
    assert stray_characters(text_of(lines)) == ""
    assert "[red]x[/red]:smile:" in text_of(lines)


def test_an_error_is_one_printable_line() -> None:
    assert str(UsageError("a\n\x1b[31mb", "c\u202ed")) == "a \ufffd[31mb; c\ufffdd"


@pytest.mark.slow
@pytest.mark.sources
def test_texts_leave_in_few_places() -> None:
    """Only these write to a stream: what they write is printable, or is a document for other programs."""
    writing = re.compile(
        r"\bprint\(|(?:stdout|stderr)(?:\.buffer)?\.write|\bout\.buffer\.write|\bto\.write|\.print_(?:help|usage)\("
    )
    found = {
        str(path.relative_to(ROOT))
        for package in ("hta_graph", "analyses")
        for path in (ROOT / package).rglob("*.py")
        if writing.search(re.sub(r"(?m)^ *(>>>|\.\.\.) .*", "", path.read_text(encoding="utf-8")))
    }
    assert found == {
        "analyses/cli/main.py",
        "analyses/cli/parser.py",
        "analyses/display/console.py",
        "analyses/display/stderr.py",
        "hta_graph/base/storage/atomic_write.py",
    }


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", SOME, ids=" ".join)
def test_an_absurd_number_is_refused_or_answered(words: tuple[str, ...], sound: Material) -> None:
    assert [fault for _, faults in attack_options(sound, ("nan",), [words]) for fault in faults] == []


@pytest.mark.parametrize("numbers", [deep(NUMBERS)])
def test_no_absurd_number_breaks_an_option(numbers: tuple[str, ...], sound: Material) -> None:
    assert [fault for _, faults in attack_options(sound, numbers) for fault in faults] == []


def test_numbers_are_looked_for_in_all_commands() -> None:
    options = {option for words in COMMANDS for option, _, _ in numeric_options(words)}
    assert {"--jobs", "--memory", "--window", "--near", "--top-k", "--launch-gap-us", "--gpu", "--scale"} <= options


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            ["critical-path", "T", "--rank", "-1"],
            "--rank: expected a whole number from 0 to 999,999,999, got '-1'",
        ),
        (["info", "T", "--jobs", "1e9"], "--jobs: expected a whole number from 1 to 999,999, got '1e9'"),
        (
            ["info", "T", "--memory", "999999999999T"],
            "--memory: expected a size such as 4G or 500M, up to 1048576T",
        ),
        (["idle-time", "T", "--launch-gap-us", "1e308"], "expected a number from 0 to 1,000,000,000,000, got '1e308'"),
        (["critical-path", "T", "--window", "0:9223372036854775808"], "is out of range; give nanoseconds"),
        (["what-if", "T", "--scale", "gemm=1e308"], "expected a number from 0 to 1,000,000, got '1e308'"),
        (["what-if", "T", "--remove", "rank:" + "9" * 5_000], "is not a rank"),
    ],
    ids=lambda item: item[0] if isinstance(item, list) else "",
)
def test_a_refusal_says_what_is_taken(
    line: list[str], said: str, sound: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(sound.traces[0]) if word == "T" else word for word in line]
    status, out, err = run_command(capsys, *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert len(err) < 600
