"""Critical paths: windows, walks back along binding edges, and whose the time on them is.

intervals, binding_edges      sets of time; which edge binds each point, and the walk back along those
window_ends, windows          where a path ends; which time is analyzed, for one rank and for a job
time_accounting               what a walk passes, divided into parts that each have an owner
unexplained_reasons, unrecorded_work    why a part is unexplained; when work may have run that has no row
segments, critical_path       a path as segments of one owner and class each
idle_gap_causes               why nothing ran: the same accounting in the words of gaps
rank_local_walks, rank_crossings    a job's path: each rank alone, and from rank to rank
step_table, level_of_detail   all steps side by side; what a drawing of a timeline shows
engine_step_table, engine_gaps      the same of an inference engine's steps; why the GPU is idle in and between them
gpu_activity, host_pauses     what the GPU does whatever the path; when the host launches nothing
polled_loops                  when threads wait that ask in loops
start_up                      what the host does once: code, compilation, captures, contexts
"""
