"""`python -m fmcli` and the command `fmcli`."""

from fmcli.cli import main

if __name__ == "__main__":
    main()
