"""What the GPU does with its time: types of work, kernels, what hides what."""
