"""The `foldahead` command: one module for each command, thin; what they do lives in the rooms below."""
