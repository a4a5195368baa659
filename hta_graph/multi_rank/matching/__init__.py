"""Which communication of one rank is which of the others, how far their clocks are apart, and how long each waited."""
