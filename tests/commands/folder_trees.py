"""Folders with files in them."""

TREE = {"a.txt": "one", "deep/b.txt": "two", "deep/er/c.json": "{}"}


def read(root):
    """The texts of all files below a folder, by path."""
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}
