"""fmcli."""
