"""One file a command: its docstring is its help; `add(parser)` and `run(arguments)`, or `main(words)`."""
