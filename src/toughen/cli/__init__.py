"""The command `toughen`: parse, call, print."""
