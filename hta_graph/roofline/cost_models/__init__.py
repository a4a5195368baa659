"""Cost models: what the operators of PyTorch demand, counted from their inputs."""
