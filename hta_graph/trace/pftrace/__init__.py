"""Perfetto's own format as PyTorch's Cuspy recorder writes it (``.pftrace``): packets → the rows of a Kineto trace.

schema     the protobuf classes
packets    length-delimited packets → slices, render stages and interned texts
text       these → Kineto JSON, which all else reads
"""
