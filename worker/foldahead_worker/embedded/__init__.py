"""Servers that foldahead brings along, for machines where nothing is installed."""
