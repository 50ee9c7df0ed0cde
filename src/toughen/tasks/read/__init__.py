"""Readers: files and the Hub as rows, rows as memory-mapped Arrow."""
