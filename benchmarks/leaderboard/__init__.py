"""One protocol for every method, on real data: README.md beside this file has it in words."""
