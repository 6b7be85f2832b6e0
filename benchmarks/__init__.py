"""What foldahead costs and how far it goes: one command each, a table and a JSON in `benchmarks/results/`."""
