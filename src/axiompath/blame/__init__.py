"""What happened, as players: subsets of the changes applied and evaluated; blame, undo, what if."""
