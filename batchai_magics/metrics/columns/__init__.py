"""Lines of a block that have known forms, as columns: a record is made when somebody asks for it."""
