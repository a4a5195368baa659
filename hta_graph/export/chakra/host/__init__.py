"""Host execution traces, and which of their nodes is which operator of a device trace."""
