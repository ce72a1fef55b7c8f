"""The experiments behind axiompath; they run from a clone of the repository and are not part of what is installed.

datasets/     published graphs by name, and graphs whose cause of change is known
experiments/  the paper's experiments, real tasks, and axiompath beside other explainers
cli/          `python -m research reproduce ...`, `python -m research benchmark ...`
"""
