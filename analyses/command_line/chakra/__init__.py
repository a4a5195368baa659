"""The commands about Chakra's workloads: their options, and what runs them."""
