"""Two passes of a network -> Change: kept, gained and lost, coefficient by coefficient; what a change reaches."""
