"""Other packages' public names over proactor: move by changing one import.

Write `from proactor.compat import linux_aio` for `import linux_aio`, and the same for `caio`. Each package's
first lines say what it follows and what it does differently on purpose.
"""
