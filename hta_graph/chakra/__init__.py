"""MLCommons Chakra and ASTRA-sim: execution traces read, linked, converted, checked, simulated and scaled."""
