"""Load clients of ``annulet bench``."""
