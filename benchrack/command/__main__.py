"""`python -m benchrack.command` is the command `benchrack`."""

from benchrack.command.cli import main

main()
