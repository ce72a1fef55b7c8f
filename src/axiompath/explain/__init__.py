"""The one road: a change, targets and a question -> Explanations; replay; the record."""
