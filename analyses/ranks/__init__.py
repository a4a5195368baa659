"""Several ranks: their collectives, who waits for whom."""
