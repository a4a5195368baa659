"""What-if: a graph's points get the earliest times that its edges allow, as recorded or after changes."""
