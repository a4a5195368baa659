"""Whose work it is: operators, frames, modules, annotations, counters per operator."""
