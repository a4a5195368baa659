"""Pages that open without a network: the report and the timeline."""
