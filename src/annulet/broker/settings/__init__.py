"""The configuration: files, sections, values and the errors about them; and the clock."""
