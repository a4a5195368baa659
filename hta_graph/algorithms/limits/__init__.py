"""How near to the hardware's limits activities run: their operators' demands, the least times for these, groups."""
