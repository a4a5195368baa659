"""What the command line offers of each analysis, made of what these declare.

``python -m tests.generate`` writes it anew.
"""

from __future__ import annotations

from analyses.description import Flag, IndexEntry

# fmt: off
# ruff: noqa: E501, Q000
INDEX: tuple[IndexEntry, ...] = (
    IndexEntry(
        name='temporal-breakdown',
        help='How much of the time the GPU computes, talks, moves memory, or is idle.',
        more='Every nanosecond counts once: computing, exposed communication, exposed copies, idle.',
        examples=('temporal-breakdown trace.json.gz', 'temporal-breakdown job --per-step --csv times.csv'),
        module='analyses.questions.temporal_breakdown',
    ),
    IndexEntry(
        name='kernel-breakdown',
        help='GPU time per type of work, alone and overlapping, and the kernels that take it.',
        more='Computation, communication and memory, and how much of them overlaps.',
        examples=('kernel-breakdown trace.json.gz', 'kernel-breakdown job --step 2'),
        flags=(
            Flag(argument='duration_ratio', reader='share', meaning="name the kernels that make up this share of a type's time", default=0.8),
            Flag(argument='num_kernels', reader='count', meaning='name at most this many kernels of a type', default=10),
            Flag(argument='by_quantile', reader='switch', meaning="choose the names by HTA's rule instead of by share of time", default=False),
            Flag(argument='no_memory_kernels', reader='switch', meaning='leave copies and sets out', default=False),
        ),
        module='analyses.questions.kernel_breakdown',
    ),
    IndexEntry(
        name='overlap',
        help='How much communication and copying is hidden behind other work, and which collectives stay exposed.',
        more='Communication is exposed where nothing computes beside it.',
        examples=('overlap trace.json.gz', 'overlap job --per-step'),
        module='analyses.questions.overlap',
    ),
    IndexEntry(
        name='idle-time',
        help='Find why the GPU is idle: by cause, by the wait or operator behind it, per gap and per stream.',
        more='Each gap has a cause: no work was launched, a launch was late, or a kernel waited for another stream.',
        examples=('idle-time trace.json.gz', 'idle-time job --step 2'),
        flags=(
            Flag(argument='launch_gap_us', reader='microseconds', meaning='treat shorter gaps after a launch in time as usual, in µs', default=30.0),
            Flag(argument='data_load', reader='text', meaning='regular expressions of data-loading events', default=(), many=True),
        ),
        module='analyses.questions.idle_time',
    ),
    IndexEntry(
        name='queue-length',
        help='How many launches wait on each stream, and how long a full queue held the CPU.',
        more='A full queue holds the CPU until the GPU has caught up.',
        examples=('queue-length trace.json.gz',),
        flags=(
            Flag(argument='max_queue_length', reader='count', meaning='a queue of so many launches is full', default=1024),
        ),
        module='analyses.questions.queue_length',
    ),
    IndexEntry(
        name='memory-bandwidth',
        help='What copies and sets moved, and at which rate.',
        more='Copies are told apart by direction; those that do not say how many bytes they moved are counted apart.',
        examples=('memory-bandwidth trace.json.gz',),
        module='analyses.questions.memory_bandwidth',
    ),
    IndexEntry(
        name='memory-timeline',
        help="How much memory tensors take, its peak and what was alive then; of traces or the profiler's raw export.",
        more='It needs a recording with profile_memory=True, and says so of others.',
        examples=('memory-timeline trace.json.gz',),
        flags=(
            Flag(argument='by', reader='text', meaning='on whose behalf: operator, frame, module, annotation', default='operator', choices=('operator', 'frame', 'module', 'annotation')),
        ),
        module='analyses.questions.memory_timeline',
    ),
    IndexEntry(
        name='launch-stats',
        help='How long launches take on the CPU, and what their work waited for before it started.',
        more='What passes between a launch and its work is divided: behind earlier work, behind an event, the rest.',
        examples=('launch-stats trace.json.gz',),
        flags=(
            Flag(argument='runtime_cutoff', reader='microseconds', meaning='a call that takes longer, in µs, is an outlier', default=50),
            Flag(argument='launch_delay_cutoff', reader='microseconds', meaning='a longer launch delay, in µs, is an outlier', default=100),
            Flag(argument='no_memory_events', reader='switch', meaning='leave copies and sets out', default=False),
        ),
        module='analyses.questions.launch_stats',
    ),
    IndexEntry(
        name='operator-kernels',
        help='Which kernels each operator launches, and how long it takes until they are launched and start.',
        more='A kernel belongs to the innermost operator that is open when it is launched.',
        examples=('operator-kernels trace.json.gz', 'operator-kernels trace.json.gz --csv kernels.csv'),
        flags=(
            Flag(argument='operators', reader='text', meaning="operators whose names start so; '' takes all", default='aten::'),
        ),
        module='analyses.questions.operator_kernels',
    ),
    IndexEntry(
        name='roofline',
        help="How far operators are from the GPU's limits: FLOP/s, bandwidth, MFU, and what being nearer would save.",
        more='Needs the shapes of inputs: record with record_shapes=True. Without peaks of the GPU rates stand alone.',
        examples=('roofline trace.json.gz', 'roofline job --step 2 --peaks MI300X', 'roofline trace.json.gz --plot page.html'),
        page='questions/how_near_to_the_limit.md',
        flags=(
            Flag(argument='peaks', reader='file', meaning='a JSON file with the peaks of your device, or the name of one that is known', default=None, value='FILE'),
        ),
        module='analyses.questions.roofline',
    ),
    IndexEntry(
        name='kernel-sequences',
        help='The sequences of GPU work under an operator, how often each occurs and how long it takes.',
        more='Sequences that repeat are what a fused kernel or a CUDA graph could replace.',
        examples=('kernel-sequences trace.json.gz --operator aten::_foreach_add_', 'kernel-sequences trace.json.gz --operator aten::_foreach_add_ --overlay sequences.json'),
        flags=(
            Flag(argument='operator', reader='text', meaning='part of the name of operators, annotations or Python frames', value='NAME'),
            Flag(argument='min_pattern_len', reader='count', meaning='leave out rows that launch less GPU work', default=3, value='N'),
        ),
        module='analyses.questions.kernel_sequences',
    ),
    IndexEntry(
        name='annotations',
        help="How long the program's named parts take on the CPU, and what GPU work they ask for.",
        more="Annotations are what the program has named with record_function, and the profiler's own steps.",
        examples=('annotations trace.json.gz',),
        module='analyses.questions.annotation_times',
    ),
    IndexEntry(
        name='attribution',
        help='Whose work the GPU does: operators, Python frames, modules, annotations.',
        more='Frames and modules need a recording with with_stack=True.',
        examples=('attribution trace.json.gz', 'attribution trace.json.gz --by module'),
        flags=(
            Flag(argument='by', reader='text', meaning='operator, frame, module, annotation, module-class, or activity (a list)', default='operator', choices=('operator', 'frame', 'module', 'annotation', 'module-class', 'activity')),
        ),
        module='analyses.questions.attribution',
    ),
    IndexEntry(
        name='hardware-counters',
        help="What CUPTI's hardware counters counted, by the operator that launched the kernel.",
        more='It needs a recording with profiler_metrics, and says so of others.',
        examples=('hardware-counters trace.json.gz',),
        module='analyses.questions.hardware_counters',
    ),
    IndexEntry(
        name='stragglers',
        help='Find the ranks that delay the others, and why.',
        more='The rank that arrives last at a collective makes the others wait; what it does meanwhile is the cause.',
        examples=('stragglers job', 'stragglers job --per-step', 'stragglers job --json -'),
        page='which_rank.md',
        from_summaries='with causes',
        module='analyses.questions.stragglers',
    ),
    IndexEntry(
        name='collectives',
        help='Collectives across ranks: which rank arrives last, how long the others wait, and the transfer rate.',
        more='Clocks of ranks are checked against the collectives they share, and corrected where these contradict them.',
        examples=('collectives job', 'collectives job --step 2 --csv collectives.csv'),
        page='ranks.md',
        from_summaries='yes',
        module='analyses.questions.collectives',
    ),
)
