"""Attribution -> Selection: the few paths that best approximate the change, with a certificate."""

from axiompath.selection.selection import Selection, select, select_budgets, select_many

__all__ = ["Selection", "select", "select_budgets", "select_many"]
