"""Sequences compared: two recordings aligned, groups that repeat."""
