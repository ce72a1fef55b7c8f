"""models + snapshots -> opened steps, and what is made of them: scans, stories, and a folder that is kept up to date.

steps.py           a sequence -> each step from one snapshot to the next, opened
scans.py           steps -> a scan of each
stories.py         steps + targets -> Stories; story.py: the record of one; story_text.py: its sentences
watch.py           events + a folder -> Watch: a model trained on the first snapshot, every new step scanned
watch_folder.py    what is in that folder
training.py        the first snapshot -> a model; label_features.py: its features; fit.py: the training itself
"""
