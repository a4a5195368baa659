"""What several ranks did together: which communication of one is which of the others, and how far their clocks are."""
