"""Pages that open without a network: the report, the timeline."""
