"""How far from the hardware's limits: rooflines of operators, rates of collectives."""
