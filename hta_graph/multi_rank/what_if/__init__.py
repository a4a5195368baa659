"""Replay of jobs of many ranks: each rank tells its longest ways between meetings, the job decides when these were."""
