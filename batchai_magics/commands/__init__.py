"""The one command tree, in the words of `az batchai`: handlers give values, callers show them."""
