"""Named methods: each one small file, each one a composition of the four parts."""
