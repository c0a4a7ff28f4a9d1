"""Jobs on Azure Machine Learning, through Azure Resource Manager and the workspace's run history."""
