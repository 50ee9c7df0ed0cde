"""What every room uses and says nothing of methods: many tensors at once, randomness, processes, files."""
