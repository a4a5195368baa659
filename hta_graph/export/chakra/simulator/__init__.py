"""Workloads executed by ASTRA-sim's rules: what it would abort on, how long each rank takes, why it stalls."""
