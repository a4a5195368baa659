"""Exports of Nsight Systems (SQLite): the same columns and rows as a Kineto trace has."""
