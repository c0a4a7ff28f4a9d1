"""Where jobs run: the Backend protocol (base) and one package for each place."""
