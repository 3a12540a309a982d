"""Generated tasks with one right answer: copying, recall, addition, questions about stories.

They show what a model can compute, apart from any language: whether an answer is right is never a
matter of opinion, and there are as many unseen ones as one likes.
"""
