"""EDGE. Pull requests: what every forge can do with them, and one file for each forge (github, gitlab, gitea, local).

Also the texts by which a pull request remembers its decision: the hidden marker in its body and the trailer of
its commit. They are pure, and only here because nothing else reads or writes them.
"""
