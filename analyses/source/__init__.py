"""What an answer says of its input: the window, matched communication, names of kernels."""
