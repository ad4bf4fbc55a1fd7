"""The compiled core: what Python may touch of it is typed in the .pyi stubs beside this file."""
