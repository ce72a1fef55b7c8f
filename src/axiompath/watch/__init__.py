"""A list of events -> snapshots, a model trained on the first of them, every step explained, a report; step after step.

fit.py        batches -> a module trained in plain torch, the weights of its best epoch
learners.py   first snapshot -> Learned: a classifier of nodes or a predictor of links, and how well it does
clues.py      labels -> the features that half of them make
belongings.py a folder -> refused where others took a watch's names
diary.py      what a folder says of a watch: Diary, to and from watch.json; Watch, what comes back
course.py     events + folder -> Watch: the steps that are new, and no others
front_page.py Watch -> the page that leads to everything
"""

from .course import watch_events
from .diary import Watch, read_watch

__all__ = ["Watch", "read_watch", "watch_events"]
