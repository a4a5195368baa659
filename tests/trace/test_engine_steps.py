"""What the names of inference engines' steps say: phase, requests, tokens; and what is no step."""

from __future__ import annotations

import pytest

from hta_graph.base.errors import PatternError
from hta_graph.model import EventKind
from hta_graph.trace.engine_steps import PHASES, STEP_PATTERNS, own_pattern, read_step_name
from tests.support.command_line import run_command

NONE = "sq0sk0sqsq0sqsk0"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "engine", "phase", "requests", "tokens", "prefill", "decode", "kv"),
    [
        # vLLM: tokens of decoding requests are more than these where it speculates.
        ("execute_context_2(14721)_generation_0(0)", "vLLM", "prefill", 2, 14721, 14721, 0, None),
        ("execute_context_0(0)_generation_64(64)", "vLLM", "decode", 64, 64, 0, 64, None),
        ("execute_context_0(0)_generation_1(8)", "vLLM", "decode", 1, 8, 0, 8, None),
        ("execute_context_2(6144)_generation_3(3)", "vLLM", "mixed", 5, 6147, 6144, 3, None),
        ("execute_context_0(0)_generation_0(0)", "vLLM", "idle", 0, 0, 0, 0, None),
        (
            f"execute_14721_context_2(sq14721sk16221sqsq108745533sqsk120007533)_generation_0({NONE})",
            *("vLLM", "prefill", 2, 14721, 14721, 0, 16221),
        ),
        (
            f"execute_128_context_0({NONE})_generation_32(sq128sk65536sqsq512sqsk262144)",
            *("vLLM", "decode", 32, 128, 0, 128, 65536),
        ),
        (
            "execute_6147_context_2(sq6144sk7144sqsq20971520sqsk23019520)_generation_3(sq3sk6144sqsq3sqsk6144)",
            *("vLLM", "mixed", 5, 6147, 6144, 3, 13288),
        ),
        ("execute_new_3_cached_61", "vLLM", None, 64, None, None, None, None),
        # SGLang: bs counts requests.
        ("step[EXTEND bs=2 toks=14721]", "SGLang", "prefill", 2, 14721, 14721, None, None),
        ("step[SPLIT_PREFILL bs=2]", "SGLang", "prefill", 2, None, None, None, None),
        ("step[DECODE bs=64]", "SGLang", "decode", 64, 64, None, 64, None),
        (
            "step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]",
            *("SGLang", "decode", 64, 128, None, 128, 131072),
        ),
        ("step[MIXED bs=2]", "SGLang", "mixed", 2, None, None, None, None),
        (
            "step[MIXED bs=5 c=2 g=3 c_sq=6144 c_sk=7144 c_sqsq=2 c_sqsk=2 g_sq=3 g_sk=6144 g_sqsq=3 g_sqsk=6144]",
            *("SGLang", "mixed", 5, 6147, 6144, 3, 13288),
        ),
        ("step[VERIFY bs=8]", "SGLang", "verify", 8, None, None, None, None),
        (
            "step[VERIFY bs=8 c_sq=64 c_sqsq=512 c_sqsk=6138080 c_sk=767260]",
            *("SGLang", "verify", 8, 64, None, None, 767260),
        ),
        (
            "step[DRAFT bs=8 c_sq=56 c_sqsq=392 c_sqsk=5370764 c_sk=767252]",
            *("SGLang", "draft", 8, 56, None, None, 767252),
        ),
        ("step[DRAFT_EXTEND_V2 bs=8]", "SGLang", "draft", 8, None, None, None, None),
        ("step[IDLE bs=0]", "SGLang", "idle", 0, None, None, None, None),
        ("step[PREBUILT bs=4]", "SGLang", "idle", 4, None, None, None, None),
        ("step[DLLM_EXTEND bs=4 toks=128]", "SGLang", "prefill", 4, 128, 128, None, None),
        ("step[DECODE bs=32 forward_id=17]", "SGLang", "decode", 32, 32, None, 32, None),
        # ATOM: the real batch before that of the graph.
        (
            "prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096]...+3 sqsq=59768832 sqsk=59768832 sk=17408 tbo=1]",
            *("ATOM", "prefill", 6, 17408, 17408, None, 17408),
        ),
        ("decode[bs=117/128 tok=117 d=117]", "ATOM", "decode", 117, 117, None, 117, None),
        ("eager_decode[bs=300 tok=300 d=300]", "ATOM", "decode", 300, 300, None, 300, None),
        (
            "decode[bs=32 tok=128 d=32 spec=3 sqsq=512 sqsk=262144 sk=65536]",
            *("ATOM", "decode", 32, 128, None, 128, 65536),
        ),
        ("decode[bs=128 tok=384 p=2 d=126 sk=258048 tbo=1]", "ATOM", "mixed", 128, 384, None, None, 258048),
        ("decode[bs=16]", "ATOM", "decode", 16, None, None, None, None),
        ("execute_diffusion_1_256x512", "xDiT", "image", 1, None, None, None, None),
        ("model_inference", "xDiT", "image", None, None, None, None, None),
        ("[Executor] _forward_step 7: 2 ctx reqs, 30 gen reqs", *("TensorRT-LLM", "mixed", 32, None, None, None, None)),
        (
            "[Executor] _forward_step 7: 2 ctx reqs, 900 ctx tokens, 0 gen reqs",
            *("TensorRT-LLM", "prefill", 2, 900, 900, None, None),
        ),
    ],
)
def test_a_name_says_phase_batch_and_tokens(
    name: str, engine: str, phase: str | None, requests: int | None, tokens: int | None, prefill: int | None,
    decode: int | None, kv: int | None,
) -> None:  # fmt: skip
    found = read_step_name(name)
    assert found is not None
    assert (found.engine, found.phase, found.name) == (engine, phase, name)
    assert (found.requests, found.tokens, found.prefill_tokens, found.decode_tokens, found.kv_tokens) == (
        requests, tokens, prefill, decode, kv,
    )  # fmt: skip
    assert phase is None or phase in PHASES


def test_what_is_padded_and_how_large_images_are() -> None:
    padded, image = read_step_name("decode[bs=117/128 tok=117 d=117]"), read_step_name("execute_diffusion_2_768x1024")
    assert padded is not None
    assert image is not None
    assert (padded.padded_requests, image.image_size, image.requests) == (128, "768×1024", 2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    [
        *("dummy_decode[bs=1/8 tok=1 d=1]", "dummy_prefill[bs=1 tok=8192]", "dummy_eager_decode[bs=1]"),
        *("gpu_model_runner: forward", "schedule: allocate_slots", "llm_engine step: get_output", "Forward", "Sample"),
        *("scheduler.run_batch", "draft", "verify", "draft[1/3 bs=8]", "capture_8_FULL", "capture_graph_bs_8"),
        *("ProfilerStep#3", "aten::mm", "", "execute_context_1", "step[decode]", "prefill"),
    ],
)
def test_scopes_captures_and_dummies_are_no_steps(name: str) -> None:
    assert read_step_name(name) is None


def test_the_frame_of_vllm_is_a_step_only_among_frames() -> None:
    name = "vllm/v1/worker/gpu_worker.py(512): execute_model"
    found = read_step_name(name, kind=EventKind.PYTHON_FUNCTION)
    assert found is not None
    assert (found.engine, found.phase) == ("vLLM", None)
    assert read_step_name(name) is None


def test_own_patterns_are_read_by_their_groups() -> None:
    found = read_step_name("turn decode 8x16", [own_pattern(r"turn (?P<phase>\w+) (?P<batch>\d+)x(?P<tokens>\d+)")])
    assert found is not None
    assert (found.phase, found.requests, found.tokens) == ("decode", 8, 16)
    with pytest.raises(PatternError):
        own_pattern("turn (")


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    _, printed, _ = run_command(capsys, "info", "--names")
    assert all(known.engine in printed for known in STEP_PATTERNS)
    assert r"execute_context_(\d+)" in printed
