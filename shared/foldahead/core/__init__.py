"""Pure decisions: no clock, no network, no disk, no environment."""
