"""Drivers: the Hugging Face Trainer and Accelerate loops. The plain loop is `Attached.backward`."""
