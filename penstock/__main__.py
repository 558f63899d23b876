"""`python -m penstock`: the command line, as `penstock`."""

from penstock.engine.commands.main import main

if __name__ == "__main__":
    main()
