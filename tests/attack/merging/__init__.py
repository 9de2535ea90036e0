"""Ways by which somebody who may write to our branches and pull requests gets us to merge what no run drafted."""
