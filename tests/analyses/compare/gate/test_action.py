"""The GitHub Action: its steps in a runner's folders, without a network; workflow and page name its inputs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.samples import ONE_RANK, SAMPLES

ROOT = Path(__file__).parents[4]
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
WORKFLOW = (ROOT / "examples" / "gate_workflow.yml").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "how_to" / "gate_a_pull_request.md").read_text(encoding="utf-8")
BASH = "/bin/bash"
PYTHON = """#!{bash}
echo "$@" >> "$RUNNER_TEMP/python.log"
if [ "$2" = venv ]; then
  mkdir -p "$3/bin"
  cp "$0" "$3/bin/python"
  printf '#!{bash}\\nexec "{python}" -m hta_graph "$@"\\n' > "$3/bin/hta-graph"
  chmod +x "$3/bin/hta-graph"
fi
"""
"""A Python that makes environments in which hta-graph is this one, and installs nothing."""


def _section(name: str, text: str = ACTION) -> str:
    found = re.search(rf"^{name}:\n((?:  .*\n|\n)+)", text, re.MULTILINE)
    assert found is not None
    return found[1]


def input_defaults() -> dict[str, str]:
    """Return the Action's inputs with their defaults."""
    found = {}
    for name, body in re.findall(r"^  ([\w-]+):\n((?:    .*\n)+)", _section("inputs"), re.MULTILINE):
        default = re.search(r"^    default: \"?([^\"\n]*)\"?$", body, re.MULTILINE)
        found[name] = default[1] if default else ""
    return found


@dataclass(frozen=True)
class Step:
    """A step of the Action: what its environment has, and its script."""

    environment: dict[str, str]
    script: str


def steps() -> list[Step]:
    """Return the steps of the Action."""
    found = []
    for body in re.split(r"^    - name: ", ACTION, flags=re.MULTILINE)[1:]:
        environment = dict(re.findall(r"^        (\w+): (\$\{\{ inputs\.[\w-]+ \}\})$", body, re.MULTILINE))
        lines = body.partition("      run: |\n")[2].splitlines()
        found.append(Step(environment, "\n".join(line[8:] for line in lines) + "\n"))
    return found


@dataclass(frozen=True)
class Runner:
    """The folders and files that a runner gives to a step."""

    folder: Path

    def run(self, **given: str) -> tuple[int, dict[str, str], str]:
        """Run the Action; return the last exit status, its outputs, and the summary of the job."""
        for name in ("workspace", "temp", "bin", "action"):
            (self.folder / name).mkdir(exist_ok=True)
        python = self.folder / "bin" / "python"
        python.write_text(PYTHON.format(bash=BASH, python=sys.executable))
        python.chmod(0o755)
        values = {**input_defaults(), **{name.replace("_", "-"): value for name, value in given.items()}}
        runner = {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "GITHUB_WORKSPACE": str(self.folder / "workspace"),
            "GITHUB_ACTION_PATH": str(self.folder / "action"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "RUNNER_TEMP": str(self.folder / "temp"),
        }
        status = 0
        for step in steps():
            own = {
                name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: values[found[1]], text)
                for name, text in step.environment.items()
            }
            script = self.folder / "step.sh"
            script.write_text(step.script)
            # This is how a runner calls `shell: bash`.
            command = [BASH, "--noprofile", "--norc", "-eo", "pipefail", str(script)]
            done = subprocess.run(
                command, cwd=runner["GITHUB_WORKSPACE"], env={**runner, **own}, timeout=120, check=False
            )
            status = done.returncode
        outputs = dict(line.partition("=")[::2] for line in (self.folder / "output").read_text().splitlines())
        summary = self.folder / "summary"
        return status, outputs, summary.read_text() if summary.exists() else ""

    def installed(self) -> str:
        """Return what was called to install."""
        return (self.folder / "temp" / "python.log").read_text()


def test_every_input_is_used_and_what_is_used_is_an_input() -> None:
    used = {
        name for step in steps() for text in step.environment.values() for name in re.findall(r"inputs\.([\w-]+)", text)
    }
    assert used == set(input_defaults())
    assert len(steps()) == 2
    # An input in a script would be code: a branch's name may be one.
    assert "${{" not in "".join(step.script for step in steps())


@pytest.mark.parametrize("text", [WORKFLOW, PAGE], ids=["workflow", "page"])
def test_workflow_and_page_name_inputs_and_outputs_that_are_there(text: str) -> None:
    given = re.search(r"uses: OWNER/hta-graph@v1\n((?: .*\n)+)", text)
    assert given is not None
    body = given[1].partition("with:\n")[2].partition("- name")[0]
    depth = len(body) - len(body.lstrip(" "))
    assert set(re.findall(rf"^ {{{depth}}}([\w-]+):", body, re.MULTILINE)) <= set(input_defaults())
    outputs = set(re.findall(r"^  ([\w-]+):$", _section("outputs"), re.MULTILINE))
    assert set(re.findall(r"steps\.gate\.outputs\.([\w-]+)", text)) <= outputs == {
        "verdict", "status", "comment-file", "json-file",
    }  # fmt: skip


@pytest.mark.slow
def test_a_regression_fails_the_step_and_has_a_comment(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    given = {"baseline": str(ONE_RANK), "traces": f"\n  {SAMPLES / 'slower_trace.json.gz'}  \n\n", "fail_above": "5%"}
    status, outputs, summary = runner.run(**given, version="hta-graph==1.0.0")
    assert (status, outputs["verdict"], outputs["status"]) == (1, "regression", "1")
    comment = Path(outputs["comment-file"])
    assert comment.parent == tmp_path / "temp"
    assert summary == comment.read_text()
    assert summary.startswith("### Performance gate: regression\n")
    assert json.loads(Path(outputs["json-file"]).read_bytes())["limit_share"] == 0.05
    assert runner.installed().splitlines()[1] == "-m pip install --quiet hta-graph==1.0.0"
    status, outputs, _ = runner.run(**given, fail="false")
    assert (status, outputs["verdict"]) == (0, "regression")
    assert runner.installed().splitlines()[3] == f"-m pip install --quiet {tmp_path / 'action'}"


@pytest.mark.slow
def test_an_equal_run_passes_with_a_baseline_file_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    command = [sys.executable, "-m", "hta_graph", "gate", "--update", "base.json.gz", str(ONE_RANK)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tmp_path / "workspace", env=environment, check=True, timeout=120)
    runner = Runner(tmp_path)
    status, outputs, summary = runner.run(baseline="base.json.gz", traces=str(ONE_RANK), comment_file="comment.md")
    assert (status, outputs["verdict"], outputs["comment-file"]) == (0, "pass", "comment.md")
    assert (tmp_path / "workspace" / "comment.md").read_text() == summary
    assert summary.startswith("### Performance gate: pass\n")


@pytest.mark.slow
@pytest.mark.parametrize("traces", ["absent.json", "--update", "$(touch here)"])
def test_what_cannot_be_compared_fails_with_3(tmp_path: Path, traces: str) -> None:
    status, outputs, summary = Runner(tmp_path).run(baseline=str(ONE_RANK), traces=traces)
    assert (status, outputs["verdict"]) == (3, "cannot_compare")
    assert summary.startswith("### Performance gate: cannot compare\n")
    assert not (tmp_path / "workspace" / "here").exists()


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_file_name_writes_no_outputs_of_its_own(tmp_path: Path, end: str) -> None:
    name = f"c.md{end}verdict=pass{end}status=0"
    status, outputs, summary = Runner(tmp_path).run(baseline=str(ONE_RANK), traces="any.json", comment_file=name)
    assert (status, outputs, summary) == (2, {"verdict": "cannot_compare", "status": "2"}, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"fail_above": "~~~~~~~~~"}, 2, "expected a share"),
        ({"traces": ""}, 2, "expected BASELINE and NEW"),
        ({"baseline": "none.json.gz"}, 3, "makes a baseline"),
    ],
)
def test_each_outcome_has_a_comment(tmp_path: Path, given: dict[str, str], status: int, said: str) -> None:
    found, outputs, summary = Runner(tmp_path).run(**{"baseline": str(ONE_RANK), "traces": str(ONE_RANK), **given})
    assert (found, outputs["verdict"]) == (status, "cannot_compare")
    assert summary.startswith("### Performance gate: cannot compare\n")
    assert said in summary
    assert summary == Path(outputs["comment-file"]).read_text()
