"""One file for each attack: its options, and what it does. The registry finds every file here."""
