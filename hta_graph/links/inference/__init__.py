"""What the rules ask where the trace does not say: which stream or record was meant, which call was held."""
