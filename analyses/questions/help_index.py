"""What the command line offers of each analysis, made of what these declare.

``python -m tests.generate`` writes it anew.
"""

from __future__ import annotations

from analyses.declare.description import Flag, IndexEntry

# fmt: off
# ruff: noqa: E501, Q000
INDEX: tuple[IndexEntry, ...] = (
    IndexEntry(
        name='temporal-breakdown',
        help='GPU time by activity: compute, exposed communication, exposed copies, idle.',
        more='Every nanosecond counts once, so the parts add up to the window.',
        examples=('temporal-breakdown trace.json.gz', 'temporal-breakdown job --per-step -o times.csv'),
        module='analyses.questions.temporal_breakdown',
    ),
    IndexEntry(
        name='kernel-breakdown',
        help='GPU time by type of work, and the longest kernels of each type.',
        more='Types are computation, communication and memory; overlaps are listed separately.',
        examples=('kernel-breakdown trace.json.gz', 'kernel-breakdown job --step 2'),
        flags=(
            Flag(argument='duration_ratio', reader='share', meaning="list the kernels that make up this share of a type's time", default=0.8),
            Flag(argument='num_kernels', reader='count', meaning='list at most this many kernels of a type', default=10),
            Flag(argument='by_quantile', reader='switch', meaning="select kernels by HTA's rule instead of by share of time", default=False),
            Flag(argument='no_memory_kernels', reader='switch', meaning='leave out copies and memsets', default=False),
        ),
        module='analyses.questions.kernel_breakdown',
    ),
    IndexEntry(
        name='overlap',
        help='Overlapped and exposed communication and copies, and the most exposed collectives.',
        more='Communication is exposed while nothing computes; copies are exposed while nothing else runs.',
        examples=('overlap trace.json.gz', 'overlap job --per-step'),
        module='analyses.questions.overlap',
    ),
    IndexEntry(
        name='idle-time',
        help='Find why the GPU is idle: by cause, by the wait or operator behind it, per gap and per stream.',
        more='Each gap has a cause: no work was launched, a launch was late, or a kernel waited for another stream.',
        examples=('idle-time trace.json.gz', 'idle-time job --step 2'),
        flags=(
            Flag(argument='launch_gap_us', reader='microseconds', meaning='count shorter gaps as usual if the launch was in time, in µs', default=30.0),
            Flag(argument='data_load', reader='text', meaning='regular expressions of data-loading events', default=(), many=True),
        ),
        module='analyses.questions.idle_time',
    ),
    IndexEntry(
        name='queue-length',
        help='Launch queue length per stream, and time blocked on a full queue.',
        more='A full queue blocks the CPU until the GPU catches up.',
        examples=('queue-length trace.json.gz',),
        flags=(
            Flag(argument='max_queue_length', reader='count', meaning='number of launches in a full queue', default=1024),
        ),
        module='analyses.questions.queue_length',
    ),
    IndexEntry(
        name='memory-bandwidth',
        help='Memory copy and memset bandwidth.',
        more='One row per direction; copies without a recorded size are counted separately.',
        examples=('memory-bandwidth trace.json.gz',),
        module='analyses.questions.memory_bandwidth',
    ),
    IndexEntry(
        name='memory-timeline',
        help='Peak tensor memory and what was alive at the peak, from traces or a raw memory timeline.',
        more='Requires a trace recorded with profile_memory=True.',
        examples=('memory-timeline trace.json.gz',),
        flags=(
            Flag(argument='by', reader='text', meaning='attribute memory to: operator, frame, module, annotation', default='operator', choices=('operator', 'frame', 'module', 'annotation'), value='KIND'),
        ),
        module='analyses.questions.memory_timeline',
    ),
    IndexEntry(
        name='launch-stats',
        help='Durations of launch calls, and what the launched work waits for before it starts.',
        more='Each launch delay is divided into waiting for earlier work, waiting for an event, and overhead.',
        examples=('launch-stats trace.json.gz',),
        flags=(
            Flag(argument='runtime_cutoff', reader='microseconds', meaning='count calls longer than this many µs as outliers', default=50),
            Flag(argument='launch_delay_cutoff', reader='microseconds', meaning='count launch delays longer than this many µs as outliers', default=100),
            Flag(argument='no_memory_events', reader='switch', meaning='leave out copies and memsets', default=False),
        ),
        module='analyses.questions.launch_stats',
    ),
    IndexEntry(
        name='operator-kernels',
        help='Kernels launched by each operator, with launch delays.',
        more='A kernel belongs to the innermost operator that is open at its launch.',
        examples=('operator-kernels trace.json.gz', 'operator-kernels trace.json.gz -o kernels.csv'),
        flags=(
            Flag(argument='operators', reader='text', meaning="prefix of operator names; '' for all operators", default='aten::', value='PREFIX'),
        ),
        module='analyses.questions.operator_kernels',
    ),
    IndexEntry(
        name='roofline',
        help="Operator FLOP/s and bandwidth against the GPU's limits, MFU, and estimated savings.",
        more="Requires a trace recorded with record_shapes=True. Limits are left out if the GPU's peaks are unknown.",
        examples=('roofline trace.json.gz', 'roofline job --step 2 --peaks MI300X', 'roofline trace.json.gz -o page.html'),
        page='how_to/measure_efficiency.md',
        flags=(
            Flag(argument='peaks', reader='file', meaning='JSON file with the peaks of your device, or the name of a known device', default=None, value='FILE'),
        ),
        module='analyses.questions.roofline',
    ),
    IndexEntry(
        name='kernel-sequences',
        help='Repeated sequences of GPU work under an operator, with counts and times.',
        more='A sequence that repeats is a candidate for a fused kernel or a CUDA graph.',
        examples=('kernel-sequences trace.json.gz --operator aten::_foreach_add_', 'kernel-sequences trace.json.gz --operator aten::_foreach_add_ --overlay sequences.json'),
        flags=(
            Flag(argument='operator', reader='text', meaning='part of the name of an operator, annotation or Python frame', value='NAME'),
            Flag(argument='min_pattern_len', reader='count', meaning='leave out sequences of fewer GPU activities', default=3, value='N'),
        ),
        module='analyses.questions.kernel_sequences',
    ),
    IndexEntry(
        name='serving',
        help='Steps of an inference engine: phases, what bounds them, and why the GPU is idle between them.',
        more='Steps are the annotations of vLLM, SGLang, TensorRT-LLM, ATOM and xDiT, or those that --step-pattern names.',
        examples=('serving trace.json.gz', 'serving job -o steps.csv'),
        module='analyses.questions.serving',
    ),
    IndexEntry(
        name='annotations',
        help='CPU time and launched GPU work of each annotation.',
        more='Annotations are record_function ranges and profiler steps.',
        examples=('annotations trace.json.gz',),
        module='analyses.questions.annotation_times',
    ),
    IndexEntry(
        name='attribution',
        help='GPU time by operator, Python frame, module or annotation.',
        more='Frames and modules require a trace recorded with with_stack=True.',
        examples=('attribution trace.json.gz', 'attribution trace.json.gz --by module'),
        flags=(
            Flag(argument='by', reader='text', meaning='operator, frame, module, annotation, module-class; activity lists every activity', default='operator', choices=('operator', 'frame', 'module', 'annotation', 'module-class', 'activity'), value='KIND'),
        ),
        module='analyses.questions.attribution',
    ),
    IndexEntry(
        name='hardware-counters',
        help='CUPTI hardware counters by the operator that launched the kernel.',
        more='Requires a trace recorded with profiler_metrics (PyTorch until June 2026); samples are counted, not read.',
        examples=('hardware-counters trace.json.gz',),
        module='analyses.questions.hardware_counters',
    ),
    IndexEntry(
        name='stragglers',
        help='Find the ranks that delay the others, and why.',
        more='The rank that arrives last at a collective makes the others wait; what it does meanwhile is the cause.',
        examples=('stragglers job', 'stragglers job --per-step', 'stragglers job --json -'),
        page='which_rank.md',
        from_summaries=True,
        module='analyses.questions.stragglers',
    ),
    IndexEntry(
        name='collectives',
        help='Collectives across ranks: which rank arrives last, how long the others wait, and the transfer rate.',
        more='Clocks of ranks are checked against the collectives they share, and corrected where these contradict them.',
        examples=('collectives job', 'collectives job --step 2 -o collectives.csv'),
        page='reading/ranks.md',
        from_summaries=True,
        module='analyses.questions.collectives',
    ),
)
