"""Roofline: what operators demand of the hardware by their recorded inputs, and what devices can do at most."""
