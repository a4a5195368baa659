"""A mistyped command, option, choice or file gets one line with what was probably meant."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from analyses.cli.main import main
from tests.support.command_line import one_error, two_steps


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--verison", "hta-graph: unknown option --verison; did you mean --version?"),
        ("critical-pth T", "hta-graph: unknown command 'critical-pth'; did you mean critical-path?"),
        ("convert T", "hta-graph: unknown command 'convert'; did you mean chakra convert?"),
        ("xyzzy", "hta-graph: unknown command 'xyzzy'; see hta-graph --help"),
        ("chakra conver T", "hta-graph chakra: unknown command 'conver'; did you mean convert?"),
        ("critical-path T --overaly x", "hta-graph critical-path: unknown option --overaly; did you mean --overlay?"),
        ("critical-path --overaly=x", "hta-graph critical-path: unknown option --overaly; did you mean --overlay?"),
        (
            "critical-path T --xyzzy",
            "hta-graph critical-path: unknown option --xyzzy; see hta-graph critical-path --help",
        ),
        ("critical-path T -q", "hta-graph critical-path: unknown option -q; see hta-graph critical-path --help"),
        ("chakra check T --jsn x", "hta-graph chakra check: unknown option --jsn; did you mean --json?"),
        (
            "stragglers T --summaries alway",
            "hta-graph stragglers: --summaries: expected always or never, got 'alway'; did you mean always?",
        ),
        (
            "attribution T --by modul",
            (
                "hta-graph attribution: --by: expected operator, frame, module, annotation, module-class or activity, "
                "got 'modul'; did you mean module?"
            ),
        ),
        (
            "critical-path T --step 1 --whole",
            "hta-graph critical-path: --whole: cannot be used with --step; see hta-graph critical-path --help",
        ),
        (
            "critical-path T --step eleven",
            (
                "hta-graph critical-path: --step: expected a step number, such as 11, got 'eleven'; "
                "see hta-graph critical-path --help"
            ),
        ),
        ("info -version", "hta-graph info: unknown option -version; did you mean --version?"),
        ("schema info more", "hta-graph schema: unexpected argument 'more'; see hta-graph schema --help"),
    ],
    ids=lambda text: text.partition(";")[0][:40],
)
def test_a_mistyped_word_is_refused_with_the_one_meant(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = two_steps().write(tmp_path / "t.json")
    words = [str(trace) if word == "T" else word for word in line.split()]
    assert one_error(capsys, tmp_path, *words, status=2) == f"{said}\n"


def test_earlier_names_of_options_work_and_are_not_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = two_steps().write(tmp_path / "t.json")
    assert main(["critical-path", str(trace), "--skeletons", "never"]) == 0
    capsys.readouterr()
    for words in (["critical-path"], ["chakra", "link"]):
        with pytest.raises(SystemExit):
            main([*words, "--help-all"])
    out = capsys.readouterr().out
    assert "--summaries" in out
    assert not [name for name in ("--skeletons", "--output-file", "--chakra-host-trace") if name in out]


def test_a_value_that_looks_like_an_option_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = two_steps().write(tmp_path / "t.json")
    line = one_error(capsys, tmp_path, "critical-path", trace, "--annotation=--forward")
    assert "--forward" in line
    assert "unknown option" not in line
    assert "unknown option" not in one_error(capsys, tmp_path, "critical-path", trace, "--window=-5:-1")


def test_standard_input_has_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = one_error(capsys, tmp_path, "info", "-")
    assert line == "hta-graph: -: no such file; to read standard input, name /dev/stdin\n"


def test_a_missing_file_is_refused_with_the_one_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = two_steps().write(tmp_path / "trace.json")
    line = one_error(capsys, tmp_path, "critical-path", tmp_path / "trace.jsn")
    assert line == f"hta-graph: {tmp_path / 'trace.jsn'}: no such file; did you mean {trace}?\n"
    line = one_error(capsys, tmp_path, "diff", trace, tmp_path / "elsewhere" / "b.json")
    assert line == f"hta-graph: {tmp_path / 'elsewhere' / 'b.json'}: no such file\n"


@pytest.mark.parametrize("words", [["critical-path", "nowhere.json"], ["diff", "a.json", "b.json"], ["report", "x"]])
def test_a_missing_file_is_refused_before_anything_heavy_is_imported(words: list[str]) -> None:
    import subprocess

    code = (
        "import sys\nfrom analyses.cli.main import main\nstatus = main(sys.argv[1:])\n"
        "sys.stderr.write(' '.join(sys.modules))\nsys.exit(status)"
    )
    options = ["-o", "x.html"] if words[0] == "report" else []
    done = subprocess.run([sys.executable, "-c", code, *words, *options], check=False, capture_output=True, text=True)
    said, modules = done.stderr.split("\n", 1)
    assert (done.returncode, "no such file" in said) == (1, True)
    assert {"numpy", "pandas", "msgspec", "rich", "rustworkx"} & set(modules.split()) == set()
