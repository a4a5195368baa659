"""HTA's golden answers beside ours: ``python -m tests.golden_table``.

A judgement is derived, never written down. Every method is computed a second time here, from the raw JSON and by the
shortest way (:mod:`tests.golden_table.raw_trace` and the ``formulas``): without faults, and with each of HTA's faults
(:class:`tests.golden_table.hta_faults.Fault`) switched on or off. An answer of ours must equal HTA's or the
recomputation without faults; HTA's must come out, to the last printed digit, with some of its faults switched on, and
the fewest that suffice are the reason. Everything else is UNEXPLAINED.
"""
