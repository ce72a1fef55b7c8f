"""Attribution -> Selection: the few paths that best approximate the change, with a certificate."""

from .choice import DEFAULT_METHOD, OBJECTIVES, Selection, select, select_budgets, select_many
from .solve import METHODS

__all__ = ["DEFAULT_METHOD", "METHODS", "OBJECTIVES", "Selection", "select", "select_budgets", "select_many"]
