"""One module per command. They import what they need when they run, so that `--help` is quick."""
