"""Other packages' public names over proactor: move by changing one import.

Write `from proactor.compat import aiofiles` for `import aiofiles`, and the same for `aiofile`, `caio` and
`linux_aio`. Each package's first lines say what it follows and what it does differently on purpose.
"""
