"""What `proactor bench files` runs in processes of its own, and what the comparisons measure with.

Not public.
"""
