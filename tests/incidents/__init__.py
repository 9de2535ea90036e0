"""Incidents as the field reports them, played to the whole program: what their metrics look like, what may be done.

`stage` makes the series of a calm fleet and lets a row change them, `playing` asks the program, `table` has all rows.
A new file of rows is a tuple of `Incident` that `table` adds up.
"""
