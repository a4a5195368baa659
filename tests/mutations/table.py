"""The deliberate defects: a line with tests, then for each function the defects that they must notice."""

from __future__ import annotations

from tests.mutations.defects import defects

DEFECTS = defects(r"""
columnize
    columnize._rate_of: drop 2
diff/test_job_diff
    job_diff.job_causes: bare 10
    job_side._waits_in: other 2
    job_side.listed_steps: without 6
    length_comparison._common_kernels: without 12
diff/test_step_kinds
    diff/step_kinds.kinds_of_contents: constant 1=1000
    step_table._rows_of_step_threads: bare 14
multi_rank/test_job_verdict
    multi_rank/job_verdict._differs_where_another_leads: returns 2=False
    multi_rank/job_verdict._cases_in_steps: drop 12; drop 14
    multi_rank/job_verdict._stands_out: drop 9; drop 10; drop 11; drop 12
    multi_rank/job_verdict._takes_longest: arithmetic 5
    multi_rank/job_verdict.chance_of: returns 1=0.0
    rank_delays._lost_by_waiters: other 2
    rank_delays.rank_delays: bare 34
paths/test_engine_steps
    engine_step_table._work_on_gpu: without 3
questions/test_serving
    engine_gaps._HostParts._with_other_threads: drop 33
    engine_gaps._work_of_threads: drop 4
    engine_gaps.engine_gaps: without 27
test_align_rank_sequences
    align_rank_sequences.LOSS_PENALTY: constant 1=0.0
    align_rank_sequences._align_by_time: never 3; opposite 5
    align_rank_sequences._is_certain: skip 5
    align_rank_sequences._pair_scores: exchange 16; exchange 18
test_astra_sim_executor
    astra_sim_executor.is_delay: drop 2
test_atomic_write
    atomic_write._neighbour: bare 7; skip 5
    atomic_write._put_in_place: always 1
    atomic_write.new_folder: drop 5; skip 11
test_blame_ranks
    questions/idle_time.blame_ranks: bare 22
test_boundary_longest_paths test_job_longest_paths test_job_replay
    boundary_longest_paths._bypassing_rows: drop 4; drop 7
    boundary_longest_paths._longest_by_source: bare 19; bare 24
    boundary_longest_paths._used_and_retained: drop 2
    boundary_longest_paths.boundary_longest_paths: drop 8
    job_longest_paths.JobLongestPaths._values_of: other 5
    job_longest_paths.JobLongestPaths._weights: exchange 3
    job_longest_paths.JobLongestPaths.incoming_times: without 1
    job_longest_paths.JobLongestPaths.legs_back: other 3; exchange 2
    job_longest_paths.JobSolutions.is_unchanged: other 1
    job_longest_paths.JobSolutions.path: never 2
    job_longest_paths._arrivals: bare 13
    job_longest_paths._rank_boundaries: bare 79; without 39
    job_replay.JobReplay._solve: drop 4
    job_replay.JobReplay.predict: bare 13
    job_replay._normalization_of: opposite 1
    join_ranks._edges_from_instants: skip 2
    rank_replay.RankReplay._deciding_lane_ends: drop 9
    rank_replay._ReplayAnswerer._longest_paths: opposite 1
    rank_replay._ReplayAnswerer._path_record: without 8
    rank_replay._rank_window: never 2
    replay_graph._usual_lags: exchange 6
test_bounds
    bounds.Bounds.communication_ns: bare 2
    bounds.Bounds.host_ns: without 1
    scenarios._cuda_graphs: bare 11
test_bus_bandwidth
    bus_bandwidth.BUS_FACTORS: drop 11
test_captured_launches
    captured_launches._by_edits: never 2
test_captures
    graph_annotations._files_beside: never 3
    selectors._replayed_within: other 2
test_caveats
    environment.common_share: other 3
test_check
    check.MAX_COMM_BYTES: constant 2=64
    check.MAX_TAG: drop 2
    check.duration_violations: never 2; constant 4=2 ** 80
    check.is_group_key: constant 5=32
test_claims test_gains
    pricing.Gain.ns: bare 3
test_class_colours
    path_overlay.CLASS_TITLE: constant 12='data_loading (data_loading)'
test_clock_estimate
    clock_bounds.queue_depth: drop 16
    clock_estimate._piece: drop 4
    clock_estimate._without_faults: skip 13
    event_times._keep_stream_order: skip 12
test_clock_offset
    event_times.in_host_time: arithmetic 2
test_communication_kernels
    read_communications.awaited_rank: returns 3=NO_RANK
test_convert_command
    et_files.check_prefix: drop 7
test_critical_paths test_boundary_events
    boundary_events._next_kept_points: never 1
    boundary_events._with_binding_rows: skip 8
    boundary_events.contract_edges: drop 4
    critical_paths._segments_of_rank_in_job: without 9
    job_clocks.RankClock.is_constant_offset: returns 1=True
    path_legs._legs_of_path: without 37
    path_legs._rank_crossings: never 1
    rank_activity.RankActivity.moved: drop 2
    rank_activity._job_numbers: drop 4
    rank_summary._shifted_window: drop 4
test_cross_device_waits
    wait_resolution._stream_of_other_device: skip 5
test_csv_text
    csv_text.RISKY: constant 1='[\\t\\r\\n]|\\s*[=+\\-@\\uff1d\\uff0b\\uff0d\\uff20]'
    csv_text.harmless_cells: opposite 1
test_from_dataframes
    from_dataframes.FrameColumns._from_floats: drop 4
    from_dataframes._are_streams: drop 2
    from_dataframes._refuse_cycles: never 1
    from_dataframes._with_order: always 1
    from_dataframes.trace_of_events: bare 61
    validate.repeated_rows: skip 3
test_decompress
    decompress.Decompression._gunzip_members: skip 11
test_diff
    differences.Difference.exceeds: returns 1=False
test_driver_lock
    driver_lock._with_waits: bare 5
test_earlier_iterations
    replay_graph.ReplayGraph.ends_of_latest: drop 4
    windows.earlier_iterations: exchange 4
test_edge_correspondence
    rank_normalization._comparable_lanes: bare 26
    rank_normalization._event_keys: without 12
test_environment
    environment._is_different: arithmetic 3
    environment._option: constant 1='1'
test_every_column
    paths/critical_path.CriticalPath._repr_html_: other 1
    paths/critical_path.CriticalPath._totals_by: exchange 7
    paths/critical_path.CriticalPath._with_shares: other 1
    paths/critical_path.CriticalPath.by_bound: other 1
    paths/critical_path.CriticalPath.coverage: drop 1
    questions/attribution.attribution: other 1
    questions/hardware_counters._sums_by_operator: drop 6
    questions/idle_time._gaps_per_stream: other 3
    questions/idle_time._share_of_idle: other 1
    questions/idle_time._scope_longest: bare 22
    questions/kernel_breakdown._described_groups: drop 10
    questions/kernel_breakdown.kernel_breakdown: other 3
    questions/kernel_breakdown.kernel_types: other 2
    questions/memory_timeline._owners_at_peak: other 3
    questions/overlap._hidden_time: drop 6
    questions/queue_length._described_lengths: drop 6
    questions/stragglers._waiting_caused: other 2; drop 6
    questions/temporal_breakdown._with_shares: drop 2
    raw_memory_timeline.peak_table: other 3
    sections._items: other 1
test_file_times
    conversion.event_columns: exchange 2
    trace/table.GpuClock.exact_json: returns 1=False
    path_overlay.PathEvents._arrow_records: without 9
    rewrite_rows._shifts: drop 2
test_first_sentence
    reliability._silent_ns: bare 16
test_flight_recorder
    flight_recorder._record_of: opposite 1
test_gain_curves
    gain_curves._group_equal_gains: opposite 1
    gain_curves._turning_point: drop 4
test_gains
    pricing.Gains._largest_of: never 1
test_gloo_events
    gloo_events._arrival_times: without 9
    gloo_events._calls_of_rows: bare 41
    gloo_events.awaited_rank: without 2
    match_checks.matched_members: exchange 21
test_gloo_jobs
    convert.convert: bare 13
test_gpu_clock_shift test_clock_estimate
    context.RuleContext.ended_by: drop 2
test_graph_launch_steps
    trace/engine_steps.LEAST_GRAPH_SHARE: constant 1=0.0
    trace/engine_steps._steps_by_graph_launch: drop 15
test_graph_launch_times
    time_accounting.TimeAccounting._with_long_lags: without 23
test_host_poll
    synchronization._follows_ends: drop 3
test_hostile_jobs
    join_ranks._refuse_other_jobs: constant 2=9
test_hostile_text
    console._rich_table: bare 23
    sanitize.HIDDEN: without 3
    stderr.write_lines: bare 4
test_idle_time
    questions/idle_time.ExplainedGaps.keys: returns 1=False
test_inferred_waits
    inferred_waits.NO_ROOM_NS: constant 1=20000
    inferred_waits.ONCE: exchange 2
    inferred_waits._delayed_work: returns 1=False
    inferred_waits._last_end: bare 38; without 10; without 29
    inferred_waits._launched_after_wait: drop 6
    inferred_waits._launched_before_recording: bare 2
    inferred_waits._may_release: returns 1=False
    inferred_waits._releasing_ends: constant 12=2
    inferred_waits._wait_edges: skip 2
    inferred_waits._within: drop 4
    inferred_waits.inferred_waits: arithmetic 6
    significance.is_improbable: drop 2
test_job_clocks
    job_clocks._tightened: never 1
    pair_clocks.ClockLine.to_other: drop 10
    pair_clocks._best_estimates: exchange 20
    pair_clocks._without_impossible_rows: bare 5
    pair_clocks.drift_from_ends: drop 14
test_job_graph_queries
    dependency_graph.DependencyGraph.filter: never 1
test_job_overlay
    rewrite_rows.SharedIds.process: never 2
    rewrite_rows._shifts_like_events: skip 7
    rewrite_rows._time_splices: drop 7
test_job_pictures
    boxes._LaneCrossings._wait_note: exchange 4
test_job_rules
    facts.PathFacts._on_rank_of_path: boundary 1
test_job_rules test_rank_crossings
    rank_crossings.last_arrivals: drop 10
test_job_timeline
    level_of_detail.busiest_lanes: without 19
test_job_windows
    windows._at_awaited_communication: without 13
    windows._ends_on_rank: skip 7
    windows.job_iteration: never 2
test_join_ranks test_job_critical_path
    communication_edges._until_just_before: drop 13; drop 14; drop 16
    communication_edges.collective_edges: exchange 7
    communication_edges.message_edges: without 2
    join_ranks._doubtful_edges: returns 1=False
    join_ranks.join_ranks: without 52
    windows._latest_sink: bare 7
test_kernel_breakdown
    breakdowns._types_of_all_ranks: other 4
test_kernel_names test_text_layout
    shorten._numbered_where_equal: constant 2=9
test_kernels_in_order
    kernels_in_order.kernel_changes: bare 8
test_kineto
    kineto._event_rows: drop 3
test_known_tool_errors test_brute_force test_invariants test_host_poll test_stream_queues test_segments
    arrays.freeze: skip 1
    arrays.split_intervals: other 2
    binding_edges._last_to_finish: other 7; bare 12; bare 19; exchange 8
    binding_edges.walk_back: drop 6; bare 51; skip 10
    from_trace._without_clock_faults: constant 1=2 ** 60; constant 1=0
    from_trace._without_cycles: bare 5
    from_trace.build_without_log: without 11
    columnize._assemble_trace: bare 45
    columnize._sort_names: bare 3
    columnize.assemble_traces: drop 3
    context.blocking_copies: drop 3-4
    build/from_trace.DEFAULT_RULES: without 1-15
    dependency_graph.DependencyGraph.descendants: other 2
    dependency_graph.DependencyGraph.neighbourhood: drop 2
    dependency_graph.DependencyGraph.rows_and_edges: arithmetic 1
    edges.EdgeTable.clamped: other 2
    edges.EdgeTable.distinct: without 5
    edges.EdgeTable.lags: bare 2
    graph/timeline._repair_overlaps: skip 15
    graph/timeline.nest: never 1; drop 3; without 22
    host.forward_backward: exchange 6
    host.runtime_lock: exchange 13
    host.thread_handoff: exchange 12
    host.thread_order: exchange 2
    inferred_waits._wait_edges: exchange 7
    graph/timeline.CallsByCorrelation.__init__: without 5
    points.GPU_END: exchange 2-4
    points.ordered_points: bare 6
    segments.path_spans: without 5; without 7
    stream_queues.StreamQueues.__init__: other 2
    stream_queues.StreamQueues.item_before: other 1
    stream_queues.StreamQueues.last_on: opposite 2
    stream_queues.StreamWaits._capture_all: bare 43
    stream_queues.rows_with_latest_end: bare 12
    streams._around_graphs: exchange 10
    streams._resolved_waits_as_edges: exchange 12
    streams.execution: exchange 2
    streams.launch: exchange 5
    streams.queue_full: exchange 6
    streams.stream_order: boundary 1; bare 6; exchange 1; exchange 4
    synchronization._names_its_event: drop 5
    synchronization.blocking_copy: exchange 3
    synchronization.host_poll: exchange 31
    time_accounting.AccountedTime.clip: bare 6
    timestamps.nanoseconds: never 1
    trace/table._parse_streams: bare 1; without 3
    trace/table._table_of_lanes: drop 1
    trace/table.canonical_order: bare 12; skip 7
    window_ends.program_end: other 5
test_lanes_picture
    lane_scene._arrows_of_rendezvous: exchange 12
    lane_scene._strips_of: other 3
    lanes_picture.ArrowRenderer._draw_line: without 2
    lanes_picture._left_out: never 1
test_launch_stats test_idle_time
    arrays.percentiles_by: drop 28
test_launches_by_external_id
    unnumbered_launches._unique_rows: opposite 1
    streams.launch: never 1
test_leaks
    allowlist.ArgumentAllowlist.of: drop 9
    allowlist._allowed_version: always 1
    anonymize_trace.AnonymizedRows._event: bare 23
test_level_of_detail test_timeline test_report
    level_of_detail._cells: drop 2; without 6
    level_of_detail._merge_below: bare 18
    level_of_detail.tracks_on_lanes: skip 3
    page._environment: other 1
    report/timeline.TimelinePage.link: arithmetic 1
    sections.longest_segments: bare 2
test_listed_steps
    step_table.notable_steps: without 7
test_log_statistics
    log_statistics._RankRun.statistics: drop 6; drop 8
    log_statistics._sorted_by_node: never 1
    log_statistics.log_statistics: bare 18
test_longest_paths test_replay test_scenarios test_sensitivity test_slack
    scenarios._rank_like_others: opposite 1
    changes.Removal.__call__: skip 6
    changes._Insert.__call__: exchange 5
    longest_paths.LongestPaths._make_runs: skip 21
    longest_paths.LongestPaths.decided: skip 6
    rank_normalization._event_keys: without 58
    replay_graph.ReplayGraph._edges_inside: bare 14
    replay_graph.ReplayGraph.ends_of: other 2
    replay_graph.ReplayGraph.is_issued: drop 2
    replay_graph.edge_weights: bare 49; bare 58
    sensitivity._longest_lines: skip 14
    slack.latest_times: exchange 20
test_matched_communications
    astra_sim_executor.EtProgram.program: never 2
    astra_sim_executor._RunningSimulation._deliver: never 2
    astra_sim_executor._RunningSimulation._join_collective: drop 2
    comm_attributes.RankCommAttributes.of: exchange 27; constant 16=0
    comm_attributes.RankCommAttributes.on_host: skip 6
    comm_attributes.split_recorded_communications: without 55
    et_nodes._NodeWriter.closing_messages: drop 2
    join_ranks.with_host_communications: bare 13
    matched_communications._MatchedGroup.needs_recorded_time: drop 1
    matched_communications._is_collective: drop 1
    matched_communications._send_receive_roles: opposite 3
    nodes._lane_dependencies: returns 1=False
    rank_workload.RankWorkload._gloo_worker_lanes: drop 2
test_median_step
    window_facts._most_repeated_annotation: bare 11
    windows._lower_median: drop 4
test_memory_limit
    decompress.TextStream.pieces: drop 1
    header._likely_length: returns 1=False
    memory_limit.check_decoded: constant 1=0
test_memory_limits
    read_engine.RankReading.needs_more_memory: returns 1=False
    read_ranks._read_in_order: drop 8
test_merge_tables
    merge_tables._row_statistic: drop 2
test_nodes test_et_files test_communications chakra/test_replay_fidelity test_dependency_cycles
    astra_sim_executor.EtProgram.program: skip 7
    et_nodes._NodeWriter.closing_messages: drop 1
    host_tensors.HostTensors.dependencies: drop 4
    nodes.CpuSegments._handoffs: without 10
    nodes.CpuSegments._launches_late: drop 7
    nodes.CpuSegments.launching_segment: without 2
    nodes.LONG_CALL_NS: constant 1=1 << 60
    nodes._activities_in_causal_order: drop 5
    nodes._edge_dependencies: exchange 8; constant 6=-1
    nodes.contract_host_nodes: drop 2; drop 4; constant 8=9
    nodes.cycle_error: never 1
    rank_workload.RankWorkload.scheduled: always 7
    replay_times.due_times: drop 7
    replay_times.replay_times: drop 41; without 34
    replay_times.rounded_microseconds: drop 2
test_noise
    noise.STANDARD_ERRORS: constant 1=2.0
    noise.noise_of_repetitions: drop 16
    noise.spread_of_rows: drop 3
test_opportunities
    report/opportunities._place_of: drop 5
test_output_paths
    output_paths._check_file: bare 12
    output_paths._check_holds_no_input: without 3; without 10
    output_paths._is_same_file: drop 13; returns 4=False
    output_paths.resolve_links: skip 4
test_overlap
    questions/overlap._exposed_waiting: without 12
test_path_args
    main.main: skip 20
    path_args.PathArgument.__new__: never 1
    path_args.input_files: without 7
    strip_and_counters._run_counters: skip 8
test_path_overlay
    path_overlay.PathEvents._class_texts: drop 1
    path_overlay._is_lag: drop 4
test_pseudonyms
    pseudonyms.Pseudonyms._operators: skip 5
test_rank_crossings
    rank_crossings._last_rank_to_end: bare 11
    rank_crossings._margins: other 3
    rank_crossings.last_arrivals: constant 4=0
test_rank_delays
    rank_delays._median_of_others: opposite 1
test_rank_local_walks
    rank_local_walks._RankLocalWalk._first_on_threads: bare 29
test_rank_normalization
    rank_normalization.RankNormalization._weights: drop 4
    rank_normalization.RankNormalization.of: drop 2
test_reading
    nsys/columns._Collector.add: bare 59
test_reliability
    reliability._back_to_back_ns: returns 1=False
test_replay
    modified_window.ModifiedWindow._lengthened: bare 3
    modified_window.check_added_time: never 1
    replay_graph._lags_of_causes: bare 10
test_rules
    facts.NOTABLE_SHARE: constant 1=0.0001
    facts.PathFacts._of_host: without 8
    gpu_rules.exposed_communication: drop 4
    gpu_rules.gloo_communication: exchange 4
    host_rules._between_steps: other 10
    host_facts.classify_waits: drop 2
    runtime_rules.driver_allocations: other 2
    host_rules.explicit_synchronisation: exchange 2
    host_facts.host_may_poll: constant 3=10 ** 6
    host_rules.launch_bound: never 5; constant 8=10 ** 6
    host_rules.pageable_copies: without 5
    host_rules.python_bound: constant 5=EventKind.CPU_OP
    host_facts.saved_by_running_ahead: bare 11
    gpu_rules.tiny_kernels_of: drop 4
    host_rules.waits_of_all_kinds: never 1
    recording_rules.begun_too_late: drop 1
    recording_rules.no_gpu_rows: never 1
    recording_rules.no_python_stacks: drop 1
    recording_rules.no_sync_records: constant 4=1000000000.0
    recording_rules.start_up_recorded: constant 3=10
test_run_diff
    conclusion._hidden_change_lines: constant 2=0
    length_comparison.LEAST_OF_WINDOWS: constant 1=0.01
    length_comparison.MOSTLY_UNKNOWN: constant 1=50
    length_comparison.SAME_AMOUNT: constant 1=125
    length_comparison._refusal_reason: never 3
    merge_tables.largest_change_first: bare 20
    noise.FewSteps.band: drop 11
    noise.LEAST_OF_STEPS: constant 1=0.0
    sides._compared_steps: never 1
test_run_diff test_merge_tables
    merge_tables._row_statistic: skip 8
test_safe_regex
    safe_regex.compile_pattern: without 4
test_savings
    host_rules._without_reads: constant 1=1
    reliability.reliability_after: never 1
    sentence_format.time_and_share: other 1
test_savings test_what_if
    bounds.priced_window: always 1
test_scale
    scale._Factors.of: drop 2
    scale._exact_duration: without 1
    scale._scaled_durations: drop 2
    scale._scaled_metadata: never 1
test_segment_merging
    segments._distinct_calls: drop 4
    segments._is_never_merged: drop 1
    segments._largest_owners: bare 11
    segments.merge_runs: drop 1; without 9-10; without 14; without 46; exchange 3
test_shared_export
    sources.sync_name: never 1
test_signals
    main.SIGNALS: without 3
    main._kill_children: constant 3=0
    main.install_signal_handlers: drop 2
    main.reopen_closed_streams: exchange 3
test_simulated_what_if
    replay_graph.BINDING_ROUNDS: constant 1=0
    replay_graph.ReplayGraph._edges_inside: drop 2
    replay_graph.edge_weights: drop 4
    selectors.selected_events: drop 6
test_slow_rank_rules
    job_rules._slowdown: drop 11; returns 1=False
test_step_change
    step_change._Sides._drift: returns 1=0.0
    step_change._Sides._excess_of_rare: constant 2=0
    step_change.judged_kinds: drop 2
test_step_tail
    differences._lasts: returns 1=False
    step_tail._events: returns 2=None
    step_tail._grows_throughout: returns 1=False
    step_tail._least_certain: returns 1=1
    step_tail.is_long: returns 1=True
test_step_levels
    step_levels._tested_cut: never 6; drop 23
test_step_predictions
    step_predictions.StepPredictions.usual_ns: returns 1=False
test_straggler_oracle
    pipeline_job.StragglerJob.ideal: never 1
    pipeline_step_replay._collectives: never 1
    straggler_rules._collective_groups: other 3
    straggler_rules._messages: never 1; arithmetic 4
    straggler_rules._shared_parameters: bare 7
    straggler_rules._tail: drop 1
test_text_layout
    console.print_lines: exchange 4
    text_layout.fitted: skip 8
test_unexplained_reasons
    significance.is_improbable: drop 2; drop 10
    unexplained_reasons._first_work_long_queued: drop 10-11
    unexplained_reasons._may_lack_first_node: drop 5-6
    unexplained_reasons._recurs_in_graph_replays: drop 14; drop 16
    unrecorded_work._positions_in_launches: bare 42; exchange 18
    unrecorded_work.replays_with_hole: drop 18
test_unmatched
    match_checks.ambiguous_matches: never 2
    match_checks.causally_possible: drop 1
    match_checks.non_collective_names: drop 7
    matching/collectives.match_grouped_collectives: bare 7
test_usual_lags
    replay_graph._usual_lags: skip 5
    replay_graph.edge_weights: bare 22
test_validate
    validate._are_valid: drop 25
    validate._classes_at_one_time: skip 11
test_vectorized_lookups
    arrays.last_at_most: boundary 3
test_wait_causes test_simulated_wait_causes
    job_graph.JobGraph.independent_ranks: drop 2
    sync_points._both_resumed: drop 12-13
    wait_causes.WaitCauses._inherited: drop 8
    wait_causes._Comparison.compare: skip 5; skip 15
test_wait_inference
    wait_resolution._is_held_back: drop 2
    wait_resolution.infer_records: bare 19
test_wait_order
    context._recorded_lanes: never 2; bare 31; without 8
    wait_resolution._by_launch_order: drop 2
    wait_resolution._close_ns: returns 1=False
    wait_resolution.record_positions: arithmetic 3; constant 6=10 ** 6
    wait_resolution.recorded_before_wait: boundary 3; drop 2; bare 3
    wait_resolution.wait_positions: other 2; without 6
test_what_if
    commands/what_if._read_scale: other 1
    questions/what_if/answer.WhatIf.within_rows: returns 2=False
    questions/what_if/answer.what_if: opposite 7
    reliability.Reliability.reason: never 2
    reliability.reliability_after: bare 6
    scenarios._cuda_graphs: never 1
test_windows
    windows.whole: never 2
""")
