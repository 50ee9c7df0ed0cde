"""One file a command: `HELP`, `add(parser)`, `run(arguments) -> exit code`."""
