"""How far replay can be believed on real traces: `python -m tests.replay_fidelity`."""
