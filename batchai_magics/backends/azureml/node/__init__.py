"""Programs that run on the nodes of a job in Azure Machine Learning, standard library only."""
