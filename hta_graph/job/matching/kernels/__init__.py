"""What a trace says about communication kernels: recorded arguments, and whom they concern."""
