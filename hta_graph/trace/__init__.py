"""A profiler's file → columns: the only package that knows Kineto's JSON.

    decompress → json_reader → columnize → table

Header and rank of a file are read without its events; arguments of events are read again when someone asks.
"""
