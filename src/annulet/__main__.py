"""``python -m annulet``: the command ``annulet``, also where no folder of scripts is on the path."""

from annulet.cli.main import main

if __name__ == "__main__":
    main()
