"""The running engine: one micro-batch on its way through a method."""
