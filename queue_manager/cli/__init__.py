"""The `sluice` command.

`main` parses the arguments and imports the module of the subcommand, whose `run` returns the exit code. The subcommands
read and patch objects through the API like any other client; `visibility` computes what they print.
"""
