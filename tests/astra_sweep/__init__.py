"""Workloads of recorded sets, run by ASTRA-sim itself under several networks and on faster and slower GPUs."""
